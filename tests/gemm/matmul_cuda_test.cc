// Matmul on a GPU against the host reference. Inputs are small integers times
// powers of two, so that every sum is exact and bytes are compared; where they
// are random, the bound is stated.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cuda/handles_cuda.h"
#include "gemm/matmul.h"
#include "gemm/matmul_plans.h"
#include "gtest/gtest.h"
#include "numerics/activation.h"
#include "numerics/amax.h"
#include "tests/gemm/gemm_testing.h"
#include "tests/testing/device_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Device kHost = Device::Host();
const Device kGpu = Device::Cuda(0);
constexpr Usages kRowWise = {true, false};
constexpr Usages kColumnWise = {false, true};
constexpr Usages kBoth = {true, true};
constexpr DType kOutDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

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

TestTensor SmallIntegers(DType dtype, int64_t rows, int64_t cols, uint32_t seed,
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

// H2
TEST_F(MatmulCudaTest, EveryTranspositionAndUsageGivesTheBitsOfTN) {
  for (ValueAt value : {ValueAt{SmallInteger}, ValueAt{RandomValue}}) {
    Product tn;
    tn.value = value;
    const TestTensor out(DType::kF32, tn.shape.m, tn.shape.n);
    const TestTensor want = Multiply(kGpu, tn, out);
    for (const bool transa : {false, true}) {
      for (const bool transb : {false, true}) {
        for (const Usages& usages : {kRowWise, kColumnWise, kBoth}) {
          Product product = tn;
          product.transa = transa;
          product.transb = transb;
          product.a_usages = product.b_usages = usages;
          SCOPED_TRACE(absl::StrCat("transa ", transa, " transb ", transb,
                                    " row-wise ", usages.row_wise,
                                    " column-wise ", usages.column_wise));
          EXPECT_EQ(Multiply(kGpu, product, out).bytes(), want.bytes());
          if (value == ValueAt{SmallInteger}) ExpectAsHost(product, out);
        }
      }
    }
  }
}

TEST_F(MatmulCudaTest, EveryPairOutAndBiasEqualsTheHost) {
  constexpr std::pair<Format, Format> kPairs[] = {
      {Format::kE4M3, Format::kE4M3},
      {Format::kE5M2, Format::kE4M3},
      {Format::kE4M3, Format::kE5M2}};
  for (const auto& [a_format, b_format] : kPairs) {
    for (const DType out_dtype : kOutDTypes) {
      Product product;
      product.a_format = a_format;
      product.b_format = b_format;
      const Shape& s = product.shape;
      const TestTensor out = SmallIntegers(out_dtype, s.m, s.n, 3);
      for (const bool accumulate : {false, true}) {
        MatmulOptions options;
        options.accumulate = accumulate;
        SCOPED_TRACE(absl::StrCat("a ", Name(a_format), " b ", Name(b_format),
                                  " out ", Name(out_dtype), " accumulate ",
                                  accumulate));
        ExpectAsHost(product, out, options);
        for (const DType bias_dtype : kOutDTypes) {
          const TestTensor bias = SmallIntegers(bias_dtype, 1, s.n, 4);
          SCOPED_TRACE(absl::StrCat("bias ", Name(bias_dtype)));
          ExpectAsHost(product, out, options, &bias);
        }
      }
    }
  }
}

TEST_F(MatmulCudaTest, FastAccumAndDeterministicGiveTheSameExactSums) {
  Product product;
  product.shape = {128, 256, 512};
  const TestTensor out(DType::kBF16, 128, 256);
  for (const bool fast_accum : {false, true}) {
    for (const bool deterministic : {false, true}) {
      MatmulOptions options;
      options.fast_accum = fast_accum;
      options.deterministic = deterministic;
      ExpectAsHost(product, out, options);
    }
  }
}

TEST_F(MatmulCudaTest, ReluIsExact) {
  for (const DType dtype : kOutDTypes) {
    Product product;
    const TestTensor out(dtype, product.shape.m, product.shape.n);
    const TestTensor bias = SmallIntegers(DType::kBF16, 1, product.shape.n, 4);
    MatmulOptions options;
    options.activation = Activation::kRelu;
    ExpectAsHost(product, out, options);
    ExpectAsHost(product, out, options, &bias);
  }
}

// The GPU's tanh: 2^-10 of |x|, and the rounding of the output.
TEST_F(MatmulCudaTest, GeluIsCloseToTheHost) {
  for (const DType dtype : kOutDTypes) {
    Product product;
    product.a_scale_inv = 1.0f / 16;
    const Shape& s = product.shape;
    const TestTensor out(dtype, s.m, s.n);
    MatmulOptions options;
    const TestTensor x =
        Multiply(kHost, product, TestTensor(DType::kF32, s.m, s.n));
    const TestTensor biases[] = {SmallIntegers(DType::kBF16, 1, s.n, 4),
                                 SmallIntegers(DType::kF32, 1, s.n, 4)};
    options.activation = Activation::kGelu;
    for (const TestTensor* bias :
         {(const TestTensor*)nullptr, &biases[0], &biases[1]}) {
      const TestTensor got = Multiply(kGpu, product, out, options, bias);
      for (int64_t r = 0; r < s.m; ++r) {
        for (int64_t c = 0; c < s.n; ++c) {
          const double value =
              x.at(r, c) + (bias == nullptr ? 0.0 : bias->at(0, c));
          const double want = Gelu(value);
          ASSERT_NEAR(got.at(r, c), want,
                      0x1p-10 * std::abs(value) + 0x1p-8 * std::abs(want))
              << "x " << value << " out " << Name(dtype);
        }
      }
    }
  }
}

// H1
TEST_F(MatmulCudaTest, AnySizeIsPaddedInside) {
  constexpr Shape kShapes[] = {
      {63, 64, 64}, {64, 64, 63}, {64, 60, 64}, {20001, 64, 64}, {1, 16, 16},
      {1, 1, 1},    {17, 10, 31}, {5, 33, 100}, {64, 63, 64},    {2, 4088, 48}};
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(absl::StrCat("M ", s.m, " N ", s.n, " K ", s.k));
    Product product;
    product.shape = s;
    for (const DType dtype : kOutDTypes) {
      const TestTensor out = SmallIntegers(dtype, s.m, s.n, 3);
      ExpectAsHost(product, out);
      const TestTensor bias = SmallIntegers(DType::kBF16, 1, s.n, 4);
      MatmulOptions options;
      options.accumulate = true;
      ExpectAsHost(product, out, options, &bias);
    }
    Product transposed = product;
    transposed.transa = true;
    transposed.transb = false;
    ExpectAsHost(transposed, TestTensor(DType::kBF16, s.m, s.n));
  }
}

// H1, random data: FP8 tensor cores keep at least 13 bits of a sum.
TEST_F(MatmulCudaTest, RandomDataWithinTheAccumulatorsError) {
  constexpr Shape kShapes[] = {{63, 64, 64},    {64, 64, 63}, {64, 60, 64},
                               {20001, 64, 64}, {1, 16, 16},  {256, 512, 1024}};
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(absl::StrCat("M ", s.m, " N ", s.n, " K ", s.k));
    Product product;
    product.shape = s;
    product.value = RandomValue;
    const TestTensor out(DType::kF32, s.m, s.n);
    const TestTensor want = Multiply(kHost, product, out);
    const TestTensor got = Multiply(kGpu, product, out);
    // |a| |b| <= 1, times the scales.
    const double magnitude = 0.5 * static_cast<double>(s.k);
    for (int64_t r = 0; r < s.m; ++r) {
      for (int64_t c = 0; c < s.n; ++c) {
        ASSERT_NEAR(got.at(r, c), want.at(r, c), 0x1p-13 * magnitude)
            << r << " " << c;
      }
    }
  }
}

// H7
TEST_F(MatmulCudaTest, ScalesAreApplied) {
  Product product;
  product.shape = {16, 16, 16};
  product.value = [](int64_t, int64_t, uint32_t) { return 1.0f; };
  const TestTensor out(DType::kF32, 16, 16);
  const TestTensor got = Multiply(kGpu, product, out);
  for (int64_t i = 0; i < 256; ++i) {
    ASSERT_EQ(got.at(i / 16, i % 16), 8.0f);
  }
  // Another tensor of the same shape: the cached plan takes its scales.
  product.a_scale_inv = 8.0f;
  EXPECT_EQ(Multiply(kGpu, product, out).at(3, 5), 32.0f);
}

TEST_F(MatmulCudaTest, NaNAndInfinityReachTheirRow) {
  Codes a = CodesOf(32, 64, Format::kE5M2, SmallInteger, 1);
  a.at(3, 7) = 0x7F;
  a.at(9, 7) = 0x7C;
  Codes b = CodesOf(
      16, 64, Format::kE4M3, [](int64_t, int64_t, uint32_t) { return 1.0f; },
      2);
  const QuantizedTensor a8 = ValueOf(Quantized(kGpu, a, 1.0f, kRowWise));
  const QuantizedTensor b8 = ValueOf(Quantized(kGpu, b, 1.0f, kRowWise));
  MatmulOptions options;
  options.transb = true;
  const TestTensor got =
      Multiply(kGpu, a8, b8, TestTensor(DType::kF32, 32, 16), options);
  for (int64_t r = 0; r < 32; ++r) {
    EXPECT_EQ(std::isnan(got.at(r, 2)), r == 3) << r;
    EXPECT_EQ(std::isinf(got.at(r, 2)), r == 9) << r;
  }
}

TEST_F(MatmulCudaTest, ReluKeepsNaN) {
  for (const DType dtype : kOutDTypes) {
    Product product;
    product.a_scale_inv = std::numeric_limits<float>::quiet_NaN();
    const TestTensor out(dtype, product.shape.m, product.shape.n);
    const TestTensor bias = SmallIntegers(DType::kBF16, 1, product.shape.n, 4);
    MatmulOptions options;
    options.activation = Activation::kRelu;
    EXPECT_TRUE(std::isnan(Multiply(kGpu, product, out, options).at(3, 5)));
    EXPECT_TRUE(
        std::isnan(Multiply(kGpu, product, out, options, &bias).at(3, 5)));
  }
}

TEST_F(MatmulCudaTest, OutViewsOfAnyLayoutKeepTheirGaps) {
  for (const Layout layout : kLayouts) {
    for (const Shape& s : {Shape{64, 48, 64}, Shape{2, 10, 32}}) {
      Product product;
      product.shape = s;
      TestTensor out = SmallIntegers(DType::kBF16, s.m, s.n, 3, layout);
      ExpectAsHost(product, out);
      MatmulOptions options;
      options.accumulate = true;
      ExpectAsHost(product, out, options);
    }
  }
}

TEST_F(MatmulCudaTest, PlainOperandsOfEveryDTypeAndLayout) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const DType out_dtype : kOutDTypes) {
      for (const Shape& s : {Shape{32, 48, 64}, Shape{33, 10, 7}}) {
        for (const Layout a_layout : kLayouts) {
          for (const Layout b_layout : kLayouts) {
            SCOPED_TRACE(absl::StrCat(
                Name(dtype), " -> ", Name(out_dtype), " M ", s.m, " a ",
                static_cast<int>(a_layout), " b ", static_cast<int>(b_layout)));
            TestTensor a = SmallIntegers(dtype, s.m, s.k, 1, a_layout);
            TestTensor b = SmallIntegers(dtype, s.k, s.n, 2, b_layout);
            const TestTensor out = SmallIntegers(out_dtype, s.m, s.n, 3);
            DeviceTensor device_a = ValueOf(DeviceTensor::Of(kGpu, a));
            DeviceTensor device_b = ValueOf(DeviceTensor::Of(kGpu, b));
            MatmulOptions options;
            EXPECT_EQ(
                Multiply(kGpu, device_a.view(), device_b.view(), out, options)
                    .bytes(),
                Multiply(kHost, a.view(), b.view(), out, options).bytes());
            options.accumulate = true;
            const TestTensor bias = SmallIntegers(DType::kF32, 1, s.n, 4);
            EXPECT_EQ(Multiply(kGpu, device_a.view(), device_b.view(), out,
                               options, &bias)
                          .bytes(),
                      Multiply(kHost, a.view(), b.view(), out, options, &bias)
                          .bytes());
          }
        }
      }
    }
  }
}

TEST_F(MatmulCudaTest, PlainTransposeFlagsAndNativeEpilogues) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const bool transa : {false, true}) {
      for (const bool transb : {false, true}) {
        TestTensor a =
            SmallIntegers(dtype, transa ? 64 : 32, transa ? 32 : 64, 1);
        TestTensor b =
            SmallIntegers(dtype, transb ? 48 : 64, transb ? 64 : 48, 2);
        DeviceTensor device_a = ValueOf(DeviceTensor::Of(kGpu, a));
        DeviceTensor device_b = ValueOf(DeviceTensor::Of(kGpu, b));
        const TestTensor out(dtype, 32, 48);
        const TestTensor bias = SmallIntegers(dtype, 1, 48, 4);
        MatmulOptions options;
        options.transa = transa;
        options.transb = transb;
        options.activation = Activation::kRelu;
        EXPECT_EQ(
            Multiply(kGpu, device_a.view(), device_b.view(), out, options,
                     &bias)
                .bytes(),
            Multiply(kHost, a.view(), b.view(), out, options, &bias).bytes());
      }
    }
  }
}

// H6
TEST_F(MatmulCudaTest, MisalignedPointersAndStridesAreCopied) {
  const Shape s = {24, 16, 60};  // 120-byte rows
  TestTensor a = SmallIntegers(DType::kBF16, s.m, s.k, 1);
  TestTensor b = SmallIntegers(DType::kBF16, s.k, s.n, 2);
  TestTensor c = SmallIntegers(DType::kBF16, s.m, s.n, 3);
  const TestTensor want = Multiply(kHost, a.view(), b.view(), c, {});
  for (const size_t offset : {size_t{0}, size_t{2}, size_t{8}}) {
    SCOPED_TRACE(absl::StrCat("offset ", offset));
    DeviceTensor device_a = ValueOf(DeviceTensor::Of(kGpu, a, offset));
    DeviceTensor device_b = ValueOf(DeviceTensor::Of(kGpu, b, offset));
    DeviceTensor device_c = ValueOf(DeviceTensor::Of(kGpu, c, offset));
    ASSERT_THAT(
        Matmul(device_a.view(), device_b.view(), device_c.view(), {}, stream_),
        IsOk());
    EXPECT_EQ(ValueOf(device_c.Download(stream_)).bytes(), want.bytes());
  }
  // Two rows, column-major.
  Product two_rows;
  two_rows.shape = {2, 64, 32};
  ExpectAsHost(two_rows, TestTensor(DType::kBF16, 2, 64, Layout::kTransposed));
  // A bias that starts in the middle of a 16-byte word.
  Product product;
  const TestTensor bias = SmallIntegers(DType::kBF16, 1, product.shape.n, 4);
  DeviceTensor device_bias = ValueOf(DeviceTensor::Of(kGpu, bias, 6));
  const ConstTensorView bias_view = device_bias.view();
  MatmulOptions options;
  options.bias = &bias_view;
  const TestTensor out(DType::kBF16, product.shape.m, product.shape.n);
  EXPECT_EQ(Multiply(kGpu, product, out, options).bytes(),
            Multiply(kHost, product, out, {}, &bias).bytes());
}

// G1
TEST_F(MatmulCudaTest, EmptySizes) {
  const TestTensor bias = SmallIntegers(DType::kF32, 1, 8, 4);
  for (const DType dtype : kOutDTypes) {
    for (const Shape& s : {Shape{0, 8, 16}, Shape{4, 8, 0}, Shape{0, 8, 0}}) {
      Product product;
      product.shape = s;
      const TestTensor out = SmallIntegers(dtype, s.m, s.n, 3);
      MatmulOptions options;
      options.activation = Activation::kRelu;
      ExpectAsHost(product, out, options, &bias);
      options.activation = Activation::kNone;
      ExpectAsHost(product, out, options);
      options.accumulate = true;
      ExpectAsHost(product, out, options);
    }
    Product no_columns;
    no_columns.shape = {4, 0, 16};
    ExpectAsHost(no_columns, TestTensor(dtype, 4, 0));
  }
}

// H5: wgrad accumulates into float32.
TEST_F(MatmulCudaTest, AccumulatesThreePlusProduct) {
  Product product;
  product.a_format = Format::kE5M2;
  product.shape = {16, 16, 16};
  product.value = [](int64_t, int64_t, uint32_t) { return 1.0f; };
  const TestTensor out =
      TestTensor::Of(DType::kF32, 16, 16, [](int64_t, int64_t) { return 3; });
  MatmulOptions options;
  options.accumulate = true;
  EXPECT_EQ(Multiply(kGpu, product, out, options).at(7, 9), 11.0f);
}

TEST_F(MatmulCudaTest, RefusesByName) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  Product product;
  product.shape = {32, 32, 32};
  DeviceTensor out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kF32, 32, 32)));
  DeviceTensor bf16 =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, 32, 32, 1)));
  DeviceTensor f16 =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kF16, 32, 32, 1)));
  const QuantizedTensor a = product.A(kGpu);
  const QuantizedTensor b = product.B(kGpu);

  EXPECT_THAT(
      Matmul(a, bf16.view(), out.view(), {}, stream_),
      StatusIs(unimplemented,
               AllOf(HasSubstr("M=32 N=32 K=32"), HasSubstr("E4M3 x bfloat16"),
                     HasSubstr("both operands quantized"))));
  EXPECT_THAT(Matmul(bf16.view(), f16.view(), out.view(), {}, stream_),
              StatusIs(unimplemented, HasSubstr("bfloat16 x float16")));
  Product e5m2 = product;  // H4
  e5m2.a_format = e5m2.b_format = Format::kE5M2;
  EXPECT_THAT(Matmul(e5m2.A(kGpu), e5m2.B(kGpu), out.view(), {}, stream_),
              StatusIs(invalid, HasSubstr("E5M2 x E5M2")));

  const QuantizedTensor host_a = product.A(kHost);
  EXPECT_THAT(Matmul(host_a, b, out.view(), {}, stream_),
              StatusIs(invalid, HasSubstr("a is on host")));
}

TEST_F(MatmulCudaTest, MemoryThatIsNotWhereItsViewSaysIsRefused) {
  TestTensor host = SmallIntegers(DType::kBF16, 48, 112, 1);
  TensorView liar = host.view();
  liar.device = kGpu;
  DeviceTensor b =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, 112, 80, 2)));
  DeviceTensor out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kBF16, 48, 80)));
  EXPECT_THAT(Matmul(liar, b.view(), out.view(), {}, stream_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a is said to be on cuda:0, but its memory "
                                 "is the host's")));
  // Nothing is left over from it.
  DeviceTensor a =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, 48, 112, 1)));
  EXPECT_THAT(Matmul(a.view(), b.view(), out.view(), {}, stream_), IsOk());
}

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

// One call of each kind: direct, padded, transposed, finished, into codes.
class GraphTest : public MatmulCudaTest {
 protected:
  struct Work {
    QuantizedTensor a, b;
    DeviceTensor out;
    MatmulOptions options;
  };

  // `salt` makes shapes that no other test has multiplied.
  std::vector<Work> MakeWork(int64_t salt) {
    std::vector<Work> work;
    for (Shape s : {Shape{64, 64, 64}, Shape{64, 64, 72}, Shape{64, 30, 64}}) {
      s.m += salt;
      for (const bool transa : {false, true}) {
        Product product;
        product.shape = s;
        product.value = RandomValue;
        product.transa = transa;
        MatmulOptions options;
        options.transa = transa;
        options.transb = true;
        options.activation = Activation::kGelu;
        work.push_back({product.A(kGpu), product.B(kGpu),
                        ValueOf(DeviceTensor::Of(
                            kGpu, TestTensor(DType::kBF16, s.m, s.n))),
                        options});
      }
    }
    return work;
  }
  void Enqueue(std::vector<Work>* work) {
    for (Work& w : *work) {
      ASSERT_THAT(Matmul(w.a, w.b, w.out.view(), w.options, stream_), IsOk());
    }
  }
  std::vector<std::vector<uint8_t>> Outputs(std::vector<Work>* work) {
    std::vector<std::vector<uint8_t>> outputs;
    for (Work& w : *work) {
      outputs.push_back(ValueOf(w.out.Download(stream_)).bytes());
    }
    return outputs;
  }
  void Clear(std::vector<Work>* work) {
    for (Work& w : *work) {
      const TensorView out = w.out.view();
      ASSERT_THAT(FillBytes(kGpu, out.data, 0xFF,
                            static_cast<size_t>(out.size()) * 2, stream_),
                  IsOk());
    }
  }
  CudaGraphExec Capture(std::vector<Work>* work) {
    EXPECT_EQ(
        cudaStreamBeginCapture(cuda_stream_.get(), cudaStreamCaptureModeGlobal),
        cudaSuccess);
    Enqueue(work);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(cuda_stream_.get(), &graph), cudaSuccess);
    const CudaGraph owner(graph);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    return CudaGraphExec(exec);
  }
};

TEST_F(GraphTest, ReplaysEqualEagerCalls) {
  std::vector<Work> work = MakeWork(0);
  Enqueue(&work);
  const auto want = Outputs(&work);
  const CudaGraphExec graph = Capture(&work);
  for (int replay = 0; replay < 20; ++replay) {
    Clear(&work);
    ASSERT_EQ(cudaGraphLaunch(graph.get(), cuda_stream_.get()), cudaSuccess);
    ASSERT_EQ(Outputs(&work), want) << "replay " << replay;
  }
}

TEST_F(GraphTest, TheFirstCallOfAShapeMayBeCaptured) {
  std::vector<Work> work = MakeWork(112);
  const CudaGraphExec graph = Capture(&work);
  Clear(&work);
  ASSERT_EQ(cudaGraphLaunch(graph.get(), cuda_stream_.get()), cudaSuccess);
  const auto got = Outputs(&work);
  Enqueue(&work);  // now timed: perhaps another algorithm
  const auto eager = Outputs(&work);
  for (size_t i = 0; i < got.size(); ++i) {
    for (size_t j = 0; j + 1 < got[i].size(); j += 2) {
      const auto value = [j](const std::vector<uint8_t>& bytes) {
        return FloatFromBF16(
            static_cast<uint16_t>(bytes[j] | (bytes[j + 1] << 8)));
      };
      ASSERT_NEAR(value(got[i]), value(eager[i]), 0.05) << i << " " << j;
    }
  }
}

TEST_F(MatmulCudaTest, ThreadsOnOneStreamAndOnTheirOwn) {
  for (const bool own_streams : {false, true}) {
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        // Odd sizes: all of them share the staging memory of a stream.
        Product product;
        product.shape = {40 + static_cast<int64_t>(t), 30, 50};
        const QuantizedTensor a = product.A(kGpu);
        const QuantizedTensor b = product.B(kGpu);
        CudaStream own = ValueOf(CreateCudaStream());
        const Stream stream = own_streams ? AsStream(own) : stream_;
        const TestTensor blank(DType::kF32, product.shape.m, 30);
        TestTensor want = blank;
        MatmulOptions options;
        options.transb = true;
        if (!Matmul(product.A(kHost), product.B(kHost), want.view(), options,
                    Stream())
                 .ok()) {
          wrong[t] = -1;
        }
        for (int i = 0; i < 50; ++i) {
          DeviceTensor out = ValueOf(DeviceTensor::Of(kGpu, blank));
          if (!Matmul(a, b, out.view(), options, stream).ok() ||
              ValueOf(out.Download(stream)).bytes() != want.bytes()) {
            ++wrong[t];
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0)) << own_streams;
  }
}

TEST_F(MatmulCudaTest, PlansAreSavedAndLoaded) {
  Product product;
  product.shape = {256, 256, 256};
  const TestTensor out(DType::kBF16, 256, 256);
  ExpectAsHost(product, out);
  const std::string path = absl::StrCat(::testing::TempDir(), "/plans.txt");
  const std::string again = path + ".again";
  ASSERT_THAT(SaveMatmulPlans(kGpu, path), IsOk());
  ASSERT_THAT(LoadMatmulPlans(kGpu, path), IsOk());
  ASSERT_THAT(SaveMatmulPlans(kGpu, again), IsOk());
  const auto read = [](const std::string& name) {
    std::string text;
    if (std::FILE* file = std::fopen(name.c_str(), "rb")) {
      char chunk[4096];
      for (size_t n = 0; (n = std::fread(chunk, 1, sizeof(chunk), file)) > 0;) {
        text.append(chunk, n);
      }
      std::fclose(file);
    }
    return text;
  };
  const std::string text = read(path);
  EXPECT_THAT(text, HasSubstr("plan 256 256 256 "));
  EXPECT_EQ(read(again), text);

  const std::string foreign = path + ".foreign";
  std::FILE* file = std::fopen(foreign.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  std::fputs(text.substr(0, text.size() / 2).c_str(), file);
  std::fclose(file);
  EXPECT_THAT(LoadMatmulPlans(kGpu, foreign),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".foreign: matmul plans, line")));
  EXPECT_THAT(LoadMatmulPlans(kHost, path),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("want a CUDA device")));
  EXPECT_THAT(
      SaveMatmulPlans(Device::Cuda(4711), path),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cuda:4711")));
  ExpectAsHost(product, out);
}

// H8
TEST_F(MatmulCudaTest, AnotherDeviceThanTheCurrentOne) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "needs two GPUs";
  const Device other = Device::Cuda(1);
  Product product;
  const Shape& s = product.shape;
  const TestTensor blank(DType::kBF16, s.m, s.n);
  DeviceTensor out = ValueOf(DeviceTensor::Of(other, blank));
  MatmulOptions options;
  options.transb = true;
  // The legacy stream of the device that is current during the call.
  ASSERT_THAT(
      Matmul(product.A(other), product.B(other), out.view(), options, Stream()),
      IsOk());
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  EXPECT_EQ(ValueOf(out.Download(Stream())).bytes(),
            Multiply(kHost, product, blank).bytes());
  EXPECT_THAT(
      Matmul(product.A(kGpu), product.B(other), out.view(), options, Stream()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a is on cuda:0, want out's device cuda:1")));
}

}  // namespace
}  // namespace scalekeeper
