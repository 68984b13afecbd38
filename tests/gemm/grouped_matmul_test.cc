// Products per expert on the host against one Matmul for each.
#include "gemm/grouped_matmul.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "quantizer/dequantizer.h"
#include "tests/gemm/scaled_testing.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Device kHost = Device::Host();
const Stream kStream;

// G1
TEST(GroupedMatmulTest, ExpertsWithoutTokensAreFine) {
  constexpr int64_t kN = 6, kK = 40;
  const std::vector<int64_t> cases[] = {{5, 0, 3}, {8, 0}, {0, 0}, {0, 7}};
  for (const ScaledKind& kind : {kCurrentKind, kRowwiseKind, kMxfp8Kind}) {
    for (const std::vector<int64_t>& splits : cases) {
      int64_t tokens = 0;
      for (const int64_t count : splits) tokens += count;
      const ScaledOperand a(kind, tokens, kK, 1);
      const QuantizedTensor a8 = *a.Make(kHost);
      std::vector<ScaledOperand> experts;
      std::vector<QuantizedTensor> weights;
      std::vector<MatmulOperand> b;
      for (size_t e = 0; e < splits.size(); ++e) {
        experts.emplace_back(kind, kN, kK, 10 + static_cast<uint32_t>(e));
        weights.push_back(*experts.back().Make(kHost));
      }
      for (const QuantizedTensor& weight : weights) b.push_back(weight);
      TestTensor out(DType::kF32, tokens, kN);
      MatmulOptions options;
      options.transb = true;
      ASSERT_THAT(GroupedMatmul(a8, b, out.view(), splits, options, kStream),
                  IsOk());
      int64_t row = 0;
      for (size_t e = 0; e < splits.size(); ++e) {
        for (int64_t i = 0; i < splits[e]; ++i, ++row) {
          for (int64_t n = 0; n < kN; ++n) {
            double want = 0;
            for (int64_t k = 0; k < kK; ++k) {
              want += a.Value(row, k) * experts[e].Value(n, k);
            }
            ASSERT_EQ(out.at(row, n), want) << e << " " << row;
          }
        }
      }
    }
  }
}

// G1, D12
TEST(GroupedMatmulTest, WeightGradientsOfExperts) {
  constexpr int64_t kM = 10, kN = 6;
  const std::vector<int64_t> cases[] = {{64, 33, 0}, {0, 0}, {32, 64, 1}};
  for (const ScaledKind& kind :
       {kCurrentKind, kRowwiseKind, kMxfp8Kind, kMxfp8SquareKind, kNvfp4Kind}) {
    for (const std::vector<int64_t>& splits : cases) {
      int64_t tokens = 0;
      for (const int64_t count : splits) tokens += count;
      const ScaledOperand a(kind, kM, tokens, 1);  // dy^T
      const ScaledOperand b(kind, kN, tokens, 2);  // x^T
      const QuantizedTensor a8 = *a.Make(kHost, Held::kColumnWise);
      const QuantizedTensor b8 = *b.Make(kHost, Held::kColumnWise);
      for (const bool accumulate : {false, true}) {
        std::vector<TestTensor> out;
        std::vector<TensorView> views;
        for (size_t e = 0; e < splits.size(); ++e) {
          out.push_back(TestTensor::Of(DType::kF32, kM, kN,
                                       [](int64_t, int64_t) { return 3.0f; }));
        }
        for (TestTensor& o : out) views.push_back(o.view());
        MatmulOptions options;
        options.transa = true;
        options.accumulate = accumulate;
        ASSERT_THAT(GroupedMatmulWgrad(a8, b8, views, splits, options, kStream),
                    IsOk());
        int64_t first = 0;
        for (size_t e = 0; e < splits.size(); ++e) {
          for (int64_t m = 0; m < kM; ++m) {
            for (int64_t n = 0; n < kN; ++n) {
              double want = accumulate ? 3 : 0;
              for (int64_t k = first; k < first + splits[e]; ++k) {
                want += a.Value(m, k) * b.Value(n, k);
              }
              ASSERT_EQ(out[e].at(m, n), want) << kind.name << " " << e;
            }
          }
          first += splits[e];
        }
      }
    }
  }
}

TEST(GroupedMatmulTest, BiasAndPlainOperands) {
  TestTensor x = TestTensor::Of(DType::kBF16, 3, 2, [](int64_t r, int64_t c) {
    return static_cast<float>(2 * r + c);
  });
  TestTensor w0 =
      TestTensor::Of(DType::kBF16, 2, 1, [](int64_t, int64_t) { return 1.0f; });
  TestTensor w1 = TestTensor::Of(DType::kBF16, 2, 1,
                                 [](int64_t, int64_t) { return -1.0f; });
  TestTensor bias = TestTensor::Row(DType::kF32, {10.0f});
  const ConstTensorView bias_view = bias.view();
  MatmulOptions options;
  options.bias = &bias_view;
  TestTensor out(DType::kF32, 3, 1);
  const MatmulOperand experts[] = {w0.view(), w1.view()};
  ASSERT_THAT(
      GroupedMatmul(x.view(), experts, out.view(), {2, 1}, options, kStream),
      IsOk());
  EXPECT_EQ(out.at(0, 0), 11.0f);
  EXPECT_EQ(out.at(1, 0), 15.0f);
  EXPECT_EQ(out.at(2, 0), 1.0f);
}

// Ones, and counts how often it is asked.
class OnesDequantizer : public Dequantizer {
 public:
  absl::Status DequantizeTo(const QuantizedTensor& q, const TensorView& out,
                            Stream) const override {
    ++reads;
    for (int64_t i = 0; i < q.rows * q.cols; ++i) {
      StoreFloat(out.dtype, 1.0f, out.data, i);
    }
    return absl::OkStatus();
  }
  mutable int reads = 0;
};

TEST(GroupedMatmulTest, CustomTokensAreReadOnce) {
  OnesDequantizer maker;
  const auto custom = [&](int64_t rows, int64_t cols) {
    QuantizedTensor tensor =
        *ScaledOperand(kCurrentKind, rows, cols, 1).Make(kHost);
    tensor.scaling = Scaling::kCustom;
    tensor.dequantizer = &maker;
    return tensor;
  };
  const QuantizedTensor a = custom(8, 4);
  TestTensor w =
      TestTensor::Of(DType::kF32, 4, 2, [](int64_t, int64_t) { return 1.0f; });
  const std::vector<MatmulOperand> plain(3, w.view());
  TestTensor out(DType::kF32, 8, 2);
  ASSERT_THAT(GroupedMatmul(a, plain, out.view(), {3, 0, 5}, {}, kStream),
              IsOk());
  EXPECT_EQ(maker.reads, 1);
  EXPECT_EQ(out.at(7, 1), 4.0f);
  // Weights of their own are read one by one.
  std::vector<QuantizedTensor> weights;
  for (int e = 0; e < 3; ++e) weights.push_back(custom(4, 2));
  const std::vector<MatmulOperand> b(weights.begin(), weights.end());
  maker.reads = 0;
  ASSERT_THAT(GroupedMatmul(a, b, out.view(), {3, 2, 3}, {}, kStream), IsOk());
  EXPECT_EQ(maker.reads, 1 + 3);
  EXPECT_EQ(out.at(0, 0), 4.0f);
}

TEST(GroupedMatmulTest, ErrorsNameTheExpert) {
  const auto invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  TestTensor x(DType::kF32, 8, 4);
  TestTensor w(DType::kF32, 4, 2);
  TestTensor wide(DType::kF32, 4, 3);
  TestTensor out(DType::kF32, 8, 2);
  const MatmulOperand two[] = {w.view(), w.view()};
  EXPECT_THAT(GroupedMatmul(x.view(), two, out.view(), {8}, {}, kStream),
              invalid("GroupedMatmul: got 1 splits for 2 experts"));
  EXPECT_THAT(GroupedMatmul(x.view(), two, out.view(), {9, -1}, {}, kStream),
              invalid("splits[0]: got 9, want 0 to 8"));
  EXPECT_THAT(GroupedMatmul(x.view(), two, out.view(), {8, -1}, {}, kStream),
              invalid("splits[1]: got -1, want 0 to 0"));
  EXPECT_THAT(GroupedMatmul(x.view(), two, out.view(), {5, 2}, {}, kStream),
              invalid("splits add up to 7, want 8"));
  const MatmulOperand uneven[] = {w.view(), wide.view()};
  EXPECT_THAT(GroupedMatmul(x.view(), uneven, out.view(), {8, 0}, {}, kStream),
              invalid("want M x N = 8x3"));
  EXPECT_THAT(GroupedMatmulWgrad(x.view(), x.view(), {}, {}, {}, kStream),
              invalid("got no outputs"));
}

// D12: a split inside a block.
TEST(GroupedMatmulTest, AnExpertBeginsAtAWholeBlock) {
  const ScaledOperand a(kMxfp8Kind, 16, 97, 1);
  const ScaledOperand b(kMxfp8Kind, 16, 97, 2);
  const QuantizedTensor a8 = *a.Make(kHost, Held::kColumnWise);
  const QuantizedTensor b8 = *b.Make(kHost, Held::kColumnWise);
  TestTensor out = TestTensor::Of(DType::kF32, 16, 16,
                                  [](int64_t, int64_t) { return 7.0f; });
  TestTensor second(DType::kF32, 16, 16);
  const TensorView views[] = {out.view(), second.view()};
  MatmulOptions options;
  options.transa = true;
  EXPECT_THAT(GroupedMatmulWgrad(a8, b8, views, {33, 64}, options, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("expert 1 begins at token 33 of a"),
                             HasSubstr("mxfp8 E4M3"),
                             HasSubstr("a multiple of the 32 tokens"))));
  EXPECT_EQ(out.at(3, 3), 7.0f);  // nothing was done
}

}  // namespace
}  // namespace scalekeeper
