#include "gemm/matmul.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "numerics/format.h"
#include "quantizer/quantized_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Stream kStream;

// A per-tensor quantized tensor with codes by function.
QuantizedTensor MakeQuantized(int64_t rows, int64_t cols, Format format,
                              float scale_inv, Usages usages,
                              const std::function<float(int64_t, int64_t)>& f) {
  Policy policy;
  policy.scaling = Scaling::kCurrent;
  policy.format = format;
  absl::StatusOr<QuantizedTensor> tensor = AllocateQuantized(
      rows, cols, policy, usages, Device::Host(), HostAllocator());
  EXPECT_THAT(tensor, IsOk());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const uint8_t code = Encode(format, f(r, c));
      if (tensor->row_wise) {
        tensor->row_wise->codes.as<uint8_t>()[r * cols + c] = code;
      }
      if (tensor->column_wise) {
        tensor->column_wise->codes.as<uint8_t>()[c * rows + r] = code;
      }
    }
  }
  if (tensor->row_wise) *tensor->row_wise->scale_inv.as<float>() = scale_inv;
  if (tensor->column_wise) {
    *tensor->column_wise->scale_inv.as<float>() = scale_inv;
  }
  return *std::move(tensor);
}

// Signed powers of two and zeros: every product and sum is exact in float32.
float PowerOfTwo(int64_t r, int64_t c) {
  const int64_t h = (r * 31 + c * 17 + r * c) % 11;
  if (h == 0) return 0;
  return std::ldexp(h % 2 == 0 ? 1.0f : -1.0f, static_cast<int>(h % 5) - 2);
}
float OtherPower(int64_t r, int64_t c) { return PowerOfTwo(c + 5, r + 2); }

struct Shape {
  int64_t m, n, k;
};

TEST(MatmulTest, EveryLayoutDTypeAndTransposeAgainstTheTripleLoop) {
  const Shape shapes[] = {{1, 1, 1},   {1, 16, 16}, {3, 5, 7},    {4, 4, 4},
                          {17, 1, 65}, {63, 65, 5}, {20, 33, 130}};
  int count = 0;
  for (const Shape& s : shapes) {
    for (const bool transa : {false, true}) {
      for (const bool transb : {false, true}) {
        for (const Layout layout : kLayouts) {
          const DType in = kHighPrecisionDTypes[++count % 3];
          const DType other = kHighPrecisionDTypes[count / 3 % 3];
          TestTensor a =
              transa
                  ? TestTensor::Of(
                        in, s.k, s.m,
                        [](int64_t k, int64_t m) { return PowerOfTwo(m, k); },
                        layout)
                  : TestTensor::Of(in, s.m, s.k, PowerOfTwo, layout);
          TestTensor b =
              transb
                  ? TestTensor::Of(
                        other, s.n, s.k,
                        [](int64_t n, int64_t k) { return OtherPower(k, n); },
                        layout)
                  : TestTensor::Of(other, s.k, s.n, OtherPower, layout);
          TestTensor out(DType::kF32, s.m, s.n, layout);
          MatmulOptions options;
          options.transa = transa;
          options.transb = transb;
          ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream),
                      IsOk());
          for (int64_t m = 0; m < s.m; ++m) {
            for (int64_t n = 0; n < s.n; ++n) {
              double want = 0;
              for (int64_t k = 0; k < s.k; ++k) {
                want +=
                    static_cast<double>(PowerOfTwo(m, k)) * OtherPower(k, n);
              }
              ASSERT_EQ(static_cast<double>(out.at(m, n)), want)
                  << m << " " << n << " of " << s.m << " " << s.n << " " << s.k;
            }
          }
        }
      }
    }
  }
}

TEST(MatmulTest, QuantizedOperandsInEveryCombinationOfUsages) {
  constexpr int64_t kM = 9, kN = 7, kK = 33;
  const Usages usages[] = {{true, false}, {false, true}, {true, true}};
  const std::pair<Format, Format> formats[] = {{Format::kE4M3, Format::kE4M3},
                                               {Format::kE5M2, Format::kE4M3},
                                               {Format::kE4M3, Format::kE5M2}};
  for (const auto& [format_a, format_b] : formats) {  // H4
    for (const Usages& usages_a : usages) {
      for (const Usages& usages_b : usages) {
        const QuantizedTensor a =
            MakeQuantized(kM, kK, format_a, 2.0f, usages_a, PowerOfTwo);
        const QuantizedTensor bt = MakeQuantized(
            kN, kK, format_b, 0.25f, usages_b,
            [](int64_t n, int64_t k) { return OtherPower(k, n); });
        TestTensor out(DType::kF32, kM, kN);
        MatmulOptions options;
        options.transb = true;
        ASSERT_THAT(Matmul(a, bt, out.view(), options, kStream), IsOk());
        for (int64_t m = 0; m < kM; ++m) {
          for (int64_t n = 0; n < kN; ++n) {
            double want = 0;
            for (int64_t k = 0; k < kK; ++k) {
              want += static_cast<double>(PowerOfTwo(m, k)) * OtherPower(k, n);
            }
            ASSERT_EQ(static_cast<double>(out.at(m, n)), want * 0.5);
          }
        }
      }
    }
  }
}

TEST(MatmulTest, ScalesThatAreNotOneAreApplied) {  // H7
  const auto one = [](int64_t, int64_t) { return 1.0f; };
  const QuantizedTensor a = MakeQuantized(16, 16, Format::kE4M3, 2.0f, {}, one);
  EXPECT_EQ(a.row_wise->codes.as<uint8_t>()[0], 0x38);
  const QuantizedTensor b =
      MakeQuantized(16, 16, Format::kE4M3, 0.25f, {}, one);
  TestTensor out(DType::kBF16, 16, 16);
  ASSERT_THAT(Matmul(a, b, out.view(), {}, kStream), IsOk());
  for (int64_t i = 0; i < 256; ++i) ASSERT_EQ(out.at(i / 16, i % 16), 8.0f);
}

TEST(MatmulTest, PlainTimesQuantized) {
  const QuantizedTensor w = MakeQuantized(
      3, 2, Format::kE4M3, 0.5f, {},
      [](int64_t r, int64_t c) { return static_cast<float>(2 * r + c); });
  TestTensor x = TestTensor::Row(DType::kF16, {1.0f, -4.0f});
  TestTensor y(DType::kF32, 1, 3);
  MatmulOptions options;
  options.transb = true;
  ASSERT_THAT(Matmul(x.view(), w, y.view(), options, kStream), IsOk());
  EXPECT_EQ(y.at(0, 0), -2.0f);  // (0 * 1 + 1 * -4) / 2
  EXPECT_EQ(y.at(0, 1), -5.0f);
  EXPECT_EQ(y.at(0, 2), -8.0f);
}

TEST(MatmulTest, HighPrecisionTensorsAreMultipliedUnscaled) {
  Policy policy;
  policy.scaling = Scaling::kHighPrecision;
  policy.high_precision_dtype = DType::kBF16;
  absl::StatusOr<QuantizedTensor> a = AllocateQuantized(
      1, 2, policy, {false, true}, Device::Host(), HostAllocator());
  ASSERT_THAT(a, IsOk());
  a->column_wise->codes.as<uint16_t>()[0] = BF16FromFloat(3.0f);
  a->column_wise->codes.as<uint16_t>()[1] = BF16FromFloat(0.5f);
  TestTensor b = TestTensor::Of(DType::kF32, 2, 1, [](int64_t r, int64_t) {
    return r == 0 ? 2.0f : 8.0f;
  });
  TestTensor out(DType::kF32, 1, 1);
  ASSERT_THAT(Matmul(*a, b.view(), out.view(), {}, kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), 10.0f);
}

TEST(MatmulTest, SumsAreInDoubleAndRoundedOnce) {
  // 2^24 + 1 is no float32; 1 + 2^-8 + 2^-30 rounded to float32 first would be
  // a tie of bfloat16.
  TestTensor a = TestTensor::Row(DType::kF32, {0x1p24f, 1.0f, -0x1p24f});
  TestTensor ones =
      TestTensor::Of(DType::kF32, 3, 1, [](int64_t, int64_t) { return 1.0f; });
  TestTensor out(DType::kF32, 1, 1);
  ASSERT_THAT(Matmul(a.view(), ones.view(), out.view(), {}, kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), 1.0f);

  TestTensor tie = TestTensor::Row(DType::kF32, {1.0f, 0x1p-8f, 0x1p-30f});
  TestTensor bf16(DType::kBF16, 1, 1);
  ASSERT_THAT(Matmul(tie.view(), ones.view(), bf16.view(), {}, kStream),
              IsOk());
  EXPECT_EQ(bf16.at(0, 0), 1.0f + 0x1p-7f);
}

TEST(MatmulTest, BiasComesBeforeTheActivation) {
  TestTensor a = TestTensor::Row(DType::kF32, {1.0f});
  TestTensor b = TestTensor::Row(DType::kF32, {-2.0f, 1.0f, -1.0f});
  TestTensor bias = TestTensor::Row(DType::kBF16, {1.0f, 0.5f, 1.5f});
  const ConstTensorView bias_view = bias.view();
  TestTensor out(DType::kF32, 1, 3);
  MatmulOptions options;
  options.bias = &bias_view;
  ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), -1.0f);
  options.activation = Activation::kRelu;
  ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), 0.0f);
  EXPECT_EQ(out.at(0, 1), 1.5f);
  EXPECT_EQ(out.at(0, 2), 0.5f);
}

TEST(MatmulTest, GeluIsTheTanhForm) {
  // From PyTorch's documentation of gelu(approximate='tanh'), in double.
  TestTensor a = TestTensor::Row(DType::kF32, {1.0f});
  TestTensor b =
      TestTensor::Row(DType::kF32, {0.0f, 1.0f, -1.0f, 3.0f, -20.0f});
  TestTensor out(DType::kF32, 1, 5);
  MatmulOptions options;
  options.activation = Activation::kGelu;
  ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), 0.0f);
  EXPECT_FLOAT_EQ(out.at(0, 1), 0.8411920f);
  EXPECT_FLOAT_EQ(out.at(0, 2), -0.1588080f);
  EXPECT_FLOAT_EQ(out.at(0, 3), 2.9963627f);
  EXPECT_EQ(out.at(0, 4), 0.0f);
}

TEST(MatmulTest, AccumulateAddsToWhatIsThere) {  // H5
  const auto one = [](int64_t, int64_t) { return 1.0f; };
  const QuantizedTensor a = MakeQuantized(4, 8, Format::kE5M2, 1.0f, {}, one);
  const QuantizedTensor b = MakeQuantized(8, 4, Format::kE4M3, 1.0f, {}, one);
  for (const DType dtype : kHighPrecisionDTypes) {
    TestTensor out =
        TestTensor::Of(dtype, 4, 4, [](int64_t, int64_t) { return 3.0f; });
    MatmulOptions options;
    options.accumulate = true;
    ASSERT_THAT(Matmul(a, b, out.view(), options, kStream), IsOk());
    EXPECT_EQ(out.at(3, 3), 11.0f);
  }
}

TEST(MatmulTest, EmptyExtents) {  // G1
  TestTensor a(DType::kF32, 2, 0);
  TestTensor b(DType::kF32, 0, 3);
  TestTensor bias = TestTensor::Row(DType::kF32, {-1.0f, 0.0f, 2.0f});
  const ConstTensorView bias_view = bias.view();
  TestTensor out =
      TestTensor::Of(DType::kF32, 2, 3, [](int64_t, int64_t) { return 5.0f; });
  MatmulOptions options;
  options.accumulate = true;
  ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream), IsOk());
  EXPECT_EQ(out.at(1, 2), 5.0f);
  options.accumulate = false;
  options.bias = &bias_view;
  options.activation = Activation::kRelu;
  ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream), IsOk());
  EXPECT_EQ(out.at(1, 0), 0.0f);
  EXPECT_EQ(out.at(1, 2), 2.0f);

  TestTensor none(DType::kF32, 0, 4);
  TestTensor w(DType::kF32, 4, 3);
  TestTensor no_rows(DType::kBF16, 0, 3);
  EXPECT_THAT(Matmul(none.view(), w.view(), no_rows.view(), {}, kStream),
              IsOk());
  MatmulOptions transposed;
  transposed.transa = true;
  TestTensor no_columns(DType::kBF16, 3, 0);
  TestTensor none4(DType::kF32, 4, 0);
  EXPECT_THAT(
      Matmul(w.view(), none4.view(), no_columns.view(), transposed, kStream),
      IsOk());
}

TEST(MatmulTest, NonFiniteValuesGoThrough) {
  TestTensor a = TestTensor::Row(DType::kF32, {1.0f});
  TestTensor b = TestTensor::Row(DType::kF32, {kNaN, kInf, -kInf, 1e30f});
  TestTensor out(DType::kF16, 1, 4);
  MatmulOptions options;
  options.activation = Activation::kRelu;
  ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream), IsOk());
  EXPECT_TRUE(std::isnan(out.at(0, 0)));
  EXPECT_EQ(out.at(0, 1), kInf);
  EXPECT_EQ(out.at(0, 2), 0.0f);
  EXPECT_EQ(out.at(0, 3), kInf);  // above float16
}

TEST(MatmulTest, BlocksOfASharedPanelAreAllComputed) {
  // Large K: several chunks of panels of A.
  constexpr int64_t kM = 40, kN = 6, kK = 5000;
  TestTensor a = TestTensor::Of(DType::kF32, kM, kK, [](int64_t r, int64_t) {
    return static_cast<float>(r + 1);
  });
  TestTensor b = TestTensor::Of(DType::kF32, kK, kN, [](int64_t, int64_t c) {
    return static_cast<float>(c + 1);
  });
  TestTensor out(DType::kF32, kM, kN);
  ASSERT_THAT(Matmul(a.view(), b.view(), out.view(), {}, kStream), IsOk());
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kN; ++n) {
      ASSERT_EQ(out.at(m, n), static_cast<float>((m + 1) * (n + 1) * kK));
    }
  }
}

TEST(MatmulTest, ErrorsNameTheSizesAndTheRule) {
  const auto invalid = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  TestTensor a(DType::kF32, 32, 64);
  TestTensor b(DType::kF32, 128, 64);
  TestTensor out(DType::kF32, 32, 128);
  EXPECT_THAT(Matmul(a.view(), b.view(), out.view(), {}, kStream),
              invalid("Matmul M=32 N=128 K=64: a is 32x64 after transa and b "
                      "is 128x64 after transb: K does not agree"));
  MatmulOptions options;
  options.transb = true;
  TestTensor wrong(DType::kF32, 128, 32);
  EXPECT_THAT(Matmul(a.view(), b.view(), wrong.view(), options, kStream),
              invalid("out is 128x32, want M x N = 32x128"));
  TestTensor bias(DType::kF32, 1, 32);
  const ConstTensorView bias_view = bias.view();
  options.bias = &bias_view;
  EXPECT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream),
              invalid("M=32 N=128 K=64: bias is 1x32, want 1 x N = 1x128"));
  options.bias = nullptr;
  options.accumulate = true;
  options.activation = Activation::kRelu;
  EXPECT_THAT(Matmul(a.view(), b.view(), out.view(), options, kStream),
              invalid("accumulate with an activation"));

  // H5: no FP8 output.
  TestTensor codes(DType::kUint8, 32, 128);
  options = {};
  options.transb = true;
  EXPECT_THAT(Matmul(a.view(), b.view(), codes.view(), options, kStream),
              invalid("out: got dtype uint8"));
  EXPECT_THAT(Matmul(codes.view(), b.view(), out.view(), options, kStream),
              invalid("a: got dtype uint8"));
  TensorView null = b.view();
  null.data = nullptr;
  EXPECT_THAT(Matmul(a.view(), null, out.view(), options, kStream),
              invalid("b: got a null pointer for 128x64"));
  TensorView repeated = out.view();
  repeated.row_stride = 0;
  EXPECT_THAT(Matmul(a.view(), b.view(), repeated, options, kStream),
              invalid("out: got an output whose elements overlap"));
  TensorView elsewhere = a.view();
  elsewhere.device = Device::Cuda(1);
  EXPECT_THAT(Matmul(elsewhere, b.view(), out.view(), options, kStream),
              invalid("a is on cuda:1, want out's device host"));
  EXPECT_THAT(Matmul(QuantizedTensor(), b.view(), out.view(), options, kStream),
              invalid("a: got a tensor without row-wise or column-wise data"));
}

TEST(MatmulTest, TwoE5M2OperandsAreRefused) {  // H4
  const auto one = [](int64_t, int64_t) { return 1.0f; };
  const QuantizedTensor a = MakeQuantized(2, 2, Format::kE5M2, 1.0f, {}, one);
  TestTensor out(DType::kF32, 2, 2);
  EXPECT_THAT(Matmul(a, a, out.view(), {}, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("M=2 N=2 K=2"), HasSubstr("E5M2"))));
}

TEST(MatmulTest, ADeviceThatIsNotThereIsRefused) {
  TestTensor a(DType::kF32, 1, 1);
  TensorView view = a.view();
  view.device = Device::Cuda(4711);
  // Without CUDA in the build, and with it.
  EXPECT_THAT(
      Matmul(view, view, view, {}, kStream),
      AnyOf(StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("no CUDA")),
            StatusIs(absl::StatusCode::kFailedPrecondition,
                     HasSubstr("cuda:4711"))));
}

}  // namespace
}  // namespace scalekeeper
