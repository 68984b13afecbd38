// What the GPU tests of Matmul share: products described apart from any device,
// and a fixture that runs them on the host and on GPU 0.
#ifndef SCALEKEEPER_TESTS_GEMM_MATMUL_CUDA_TESTING_H_
#define SCALEKEEPER_TESTS_GEMM_MATMUL_CUDA_TESTING_H_

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/cuda/handles_cuda.h"
#include "gemm/matmul.h"
#include "gtest/gtest.h"
#include "tests/gemm/gemm_testing.h"
#include "tests/testing/device_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {

inline const Device kHost = Device::Host();
inline const Device kGpu = Device::Cuda(0);
inline constexpr Usages kRowWise = {true, false};
inline constexpr Usages kColumnWise = {false, true};
inline constexpr Usages kBoth = {true, true};
inline constexpr DType kOutDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  if (!value.ok()) {
    // A test cannot go on without it; gtest reports the exception.
    ADD_FAILURE() << value.status();
    throw std::runtime_error(value.status().ToString());
  }
  return *std::move(value);
}

struct Shape {
  int64_t m, n, k;
};

// A product of two quantized tensors, described apart from any device.
struct Product {
  Shape shape = {64, 48, 128};
  Format a_format = Format::kE4M3;
  Format b_format = Format::kE4M3;
  bool transa = false;
  bool transb = true;
  Usages a_usages = kRowWise;
  Usages b_usages = kRowWise;
  ValueAt value = SmallInteger;
  float a_scale_inv = 2.0f;
  float b_scale_inv = 0.25f;

  // The same values whatever transa and transb are.
  QuantizedTensor A(Device device) const {
    const Codes codes = CodesOf(shape.m, shape.k, a_format, value, 1);
    return ValueOf(Quantized(device, transa ? codes.Transposed() : codes,
                             a_scale_inv, a_usages));
  }
  QuantizedTensor B(Device device) const {
    const Codes codes = CodesOf(shape.k, shape.n, b_format, value, 2);
    return ValueOf(Quantized(device, transb ? codes.Transposed() : codes,
                             b_scale_inv, b_usages));
  }
};

inline TestTensor SmallIntegers(DType dtype, int64_t rows, int64_t cols,
                                uint32_t seed,
                                Layout layout = Layout::kContiguous) {
  return TestTensor::Of(
      dtype, rows, cols,
      [seed](int64_t r, int64_t c) { return SmallInteger(r, c, seed); },
      layout);
}

class MatmulCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    ASSERT_GT(count, 0);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cuda_stream_ = ValueOf(CreateCudaStream());
    stream_ = AsStream(cuda_stream_);
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamSynchronize(cuda_stream_.get()), cudaSuccess);
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0) << "the current device changed";
  }

  // `out` after the product on `device`.
  TestTensor Multiply(Device device, const MatmulOperand& a,
                      const MatmulOperand& b, const TestTensor& out,
                      MatmulOptions options, const TestTensor* bias = nullptr) {
    DeviceTensor result = ValueOf(DeviceTensor::Of(device, out));
    std::vector<DeviceTensor> device_bias;
    ConstTensorView bias_view;
    if (bias != nullptr) {
      device_bias.push_back(ValueOf(DeviceTensor::Of(device, *bias)));
      bias_view = device_bias[0].view();
      options.bias = &bias_view;
    }
    EXPECT_THAT(Matmul(a, b, result.view(), options, stream_), IsOk());
    return ValueOf(result.Download(stream_));
  }
  TestTensor Multiply(Device device, const Product& product,
                      const TestTensor& out, MatmulOptions options = {},
                      const TestTensor* bias = nullptr) {
    options.transa = product.transa;
    options.transb = product.transb;
    const QuantizedTensor a = product.A(device);
    const QuantizedTensor b = product.B(device);
    return Multiply(device, a, b, out, options, bias);
  }

  void ExpectAsHost(const Product& product, const TestTensor& out,
                    MatmulOptions options = {},
                    const TestTensor* bias = nullptr) {
    EXPECT_EQ(Multiply(kGpu, product, out, options, bias).bytes(),
              Multiply(kHost, product, out, options, bias).bytes());
  }

  CudaStream cuda_stream_;
  Stream stream_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_GEMM_MATMUL_CUDA_TESTING_H_
