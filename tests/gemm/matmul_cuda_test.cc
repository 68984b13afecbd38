// Matmul of quantized operands on a GPU against the host reference. Inputs are
// small integers times powers of two, so that every sum is exact and bytes are
// compared; where they are random, the bound is stated.
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gemm/matmul.h"
#include "gtest/gtest.h"
#include "numerics/activation.h"
#include "tests/gemm/matmul_cuda_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  const auto precondition = absl::StatusCode::kFailedPrecondition;
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

  EXPECT_THAT(Matmul(a, bf16.view(), out.view(), {}, stream_),
              StatusIs(precondition, AllOf(HasSubstr("M=32 N=32 K=32"),
                                           HasSubstr("delayed E4M3 x bfloat16"),
                                           HasSubstr("compute capability"),
                                           HasSubstr("emulate"))));
  EXPECT_THAT(Matmul(bf16.view(), f16.view(), out.view(), {}, stream_),
              StatusIs(precondition, HasSubstr("bfloat16 x float16")));
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

}  // namespace
}  // namespace scalekeeper
