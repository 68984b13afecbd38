// Products into codes on a GPU against the host: codes, scale_inv and amax.
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gemm/matmul.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "tests/gemm/matmul_cuda_testing.h"

namespace scalekeeper {
namespace {

// A slot's three words on a device.
class DeviceSlot {
 public:
  DeviceSlot(Device device, uint32_t amax, float scale, float scale_inv)
      : device_(device) {
    std::vector<uint8_t> bytes(12);
    std::memcpy(bytes.data(), &amax, 4);
    std::memcpy(bytes.data() + 4, &scale, 4);
    std::memcpy(bytes.data() + 8, &scale_inv, 4);
    words_ = ValueOf(Upload(device, bytes));
  }
  SlotView view() {
    return {words_.as<uint32_t>(), words_.as<float>() + 1,
            words_.as<float>() + 2, nullptr};
  }
  uint32_t Amax(Stream stream) {
    uint32_t amax = 0;
    EXPECT_THAT(CopyToHost(device_, &amax, words_.data(), 4, stream), IsOk());
    return amax;
  }

 private:
  Device device_;
  Buffer words_;
};

class MatmulQuantizedCudaTest : public MatmulCudaTest {
 protected:
  struct Result {
    std::vector<uint8_t> row_wise, column_wise;
    float scale_inv = 0;
    uint32_t amax = 0;
    friend bool operator==(const Result& a, const Result& b) {
      return a.row_wise == b.row_wise && a.column_wise == b.column_wise &&
             a.scale_inv == b.scale_inv && a.amax == b.amax;
    }
  };

  Result Run(Device device, const Product& product, Format format,
             Usages usages, MatmulOptions options = {},
             const TestTensor* bias = nullptr) {
    options.transa = product.transa;
    options.transb = product.transb;
    DeviceSlot slot(device, AmaxBits(1.0f), 0.5f, 2.0f);
    Codes zeros = {product.shape.m, product.shape.n, format, {}};
    zeros.bytes.assign(static_cast<size_t>(product.shape.m * product.shape.n),
                       0x55);
    QuantizedTensor out = ValueOf(Quantized(device, zeros, 7.0f, usages));
    std::vector<DeviceTensor> device_bias;
    ConstTensorView bias_view;
    if (bias != nullptr) {
      device_bias.push_back(ValueOf(DeviceTensor::Of(device, *bias)));
      bias_view = device_bias[0].view();
      options.bias = &bias_view;
    }
    EXPECT_THAT(MatmulQuantized(product.A(device), product.B(device), &out,
                                slot.view(), options, stream_),
                IsOk());
    Result result;
    const auto download = [&](const QuantizedData& data,
                              std::vector<uint8_t>* codes) {
      codes->resize(data.codes.size());
      EXPECT_THAT(CopyToHost(device, codes->data(), data.codes.data(),
                             codes->size(), stream_),
                  IsOk());
      EXPECT_THAT(CopyToHost(device, &result.scale_inv, data.scale_inv.data(),
                             4, stream_),
                  IsOk());
      EXPECT_EQ(result.scale_inv, 2.0f);
    };
    download(*out.row_wise, &result.row_wise);
    if (out.column_wise) download(*out.column_wise, &result.column_wise);
    result.amax = slot.Amax(stream_);
    return result;
  }
};

TEST_F(MatmulQuantizedCudaTest, CodesScaleInvAndAmaxEqualTheHosts) {
  for (const Shape& s : {Shape{64, 48, 128}, Shape{33, 10, 40},
                         Shape{16, 16, 16}, Shape{7, 24, 64}}) {
    for (const Format a_format : {Format::kE4M3, Format::kE5M2}) {
      for (const Format format : {Format::kE4M3, Format::kE5M2}) {
        for (const Usages& usages : {kRowWise, kBoth}) {
          Product product;
          product.shape = s;
          product.a_format = a_format;
          SCOPED_TRACE(absl::StrCat("M ", s.m, " N ", s.n, " a ",
                                    Name(a_format), " out ", Name(format)));
          EXPECT_TRUE(Run(kGpu, product, format, usages) ==
                      Run(kHost, product, format, usages));
          MatmulOptions relu;
          relu.activation = Activation::kRelu;
          for (const DType bias_dtype : {DType::kBF16, DType::kF32}) {
            const TestTensor bias = SmallIntegers(bias_dtype, 1, s.n, 4);
            EXPECT_TRUE(Run(kGpu, product, format, usages, relu, &bias) ==
                        Run(kHost, product, format, usages, relu, &bias));
          }
        }
      }
    }
  }
}

TEST_F(MatmulQuantizedCudaTest, EmptyProductsAreNotObserved) {
  for (const Shape& s : {Shape{0, 16, 16}, Shape{16, 16, 0}}) {
    Product product;
    product.shape = s;
    const Result got = Run(kGpu, product, Format::kE4M3, kBoth);
    EXPECT_TRUE(got == Run(kHost, product, Format::kE4M3, kBoth));
    EXPECT_EQ(got.amax, AmaxBits(1.0f));
  }
}

// cuBLASLt sets AMAX_D; the slot accumulates.
TEST_F(MatmulQuantizedCudaTest, AmaxAccumulatesOverMicroBatchesAndKeepsNaN) {
  for (const int64_t n : {int64_t{32}, int64_t{24}}) {  // direct, and finished
    DeviceSlot slot(kGpu, 0, 1.0f, 1.0f);
    Codes zeros = {16, n, Format::kE4M3, {}};
    zeros.bytes.assign(static_cast<size_t>(16 * n), 0);
    QuantizedTensor out = ValueOf(Quantized(kGpu, zeros, 1.0f, kRowWise));
    const auto ones = [](int64_t, int64_t, uint32_t) { return 1.0f; };
    const QuantizedTensor a = ValueOf(Quantized(
        kGpu, CodesOf(16, 16, Format::kE4M3, ones, 1), 1.0f, kRowWise));
    Codes b_codes = CodesOf(n, 16, Format::kE4M3, ones, 2);
    MatmulOptions options;
    options.transb = true;
    const auto run = [&](float b_scale_inv) {
      const QuantizedTensor b =
          ValueOf(Quantized(kGpu, b_codes, b_scale_inv, kRowWise));
      EXPECT_THAT(MatmulQuantized(a, b, &out, slot.view(), options, stream_),
                  IsOk());
      return slot.Amax(stream_);
    };
    EXPECT_EQ(run(0.5f), AmaxBits(8.0f));
    EXPECT_EQ(run(4.0f), AmaxBits(64.0f));
    EXPECT_EQ(run(0.25f), AmaxBits(64.0f));
    b_codes.at(3, 5) = 0x7F;
    EXPECT_GT(run(1.0f), kFloatInfBits);
    b_codes.at(3, 5) = 0x38;
    EXPECT_GT(run(1.0f), kFloatInfBits);
  }
}

TEST_F(MatmulQuantizedCudaTest, PlainOperandsGiveCodesToo) {
  TestTensor a = SmallIntegers(DType::kBF16, 16, 32, 1);
  TestTensor b = SmallIntegers(DType::kBF16, 32, 16, 2);
  std::vector<std::vector<uint8_t>> codes;
  for (const Device& device : {kHost, kGpu}) {
    DeviceTensor device_a = ValueOf(DeviceTensor::Of(device, a));
    DeviceTensor device_b = ValueOf(DeviceTensor::Of(device, b));
    DeviceSlot slot(device, 0, 0.5f, 2.0f);
    QuantizedTensor out = ValueOf(Quantized(
        device, CodesOf(16, 16, Format::kE4M3, SmallInteger, 3), 1, kRowWise));
    ASSERT_THAT(MatmulQuantized(device_a.view(), device_b.view(), &out,
                                slot.view(), {}, stream_),
                IsOk());
    codes.emplace_back(256);
    ASSERT_THAT(CopyToHost(device, codes.back().data(),
                           out.row_wise->codes.data(), 256, stream_),
                IsOk());
  }
  EXPECT_EQ(codes[0], codes[1]);
}

}  // namespace
}  // namespace scalekeeper
