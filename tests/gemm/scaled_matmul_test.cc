// The host reference for operands with scales of rows and blocks, against the
// sum of products of the values, written out.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gemm/matmul.h"
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

QuantizedTensor Held(const ScaledOperand& operand,
                     enum Held held = Held::kRowWise, bool tiled = false) {
  return *operand.Make(kHost, held, tiled);
}

std::vector<ScaledKind> AllKinds() {
  std::vector<ScaledKind> kinds(std::begin(kFloatKinds), std::end(kFloatKinds));
  kinds.insert(kinds.end(), std::begin(kMicroKinds), std::end(kMicroKinds));
  return kinds;
}

bool IsSquare(const ScaledKind& kind) {
  return kind.block_rows == kind.block_cols;
}

// The sum in the order of k, in double. Per-tensor scales multiply the sum.
float Want(const ScaledOperand& a, const ScaledOperand& b, int64_t m, int64_t n,
           int64_t depth) {
  double sum = 0;
  double scale = 1;
  const bool a_late = a.kind().scaling == Scaling::kCurrent;
  const bool b_late = b.kind().scaling == Scaling::kCurrent;
  for (int64_t k = 0; k < depth; ++k) {
    const double a_scale = static_cast<double>(a.ScaleOf(m, k));
    const double b_scale = static_cast<double>(b.ScaleOf(n, k));
    sum += (a_late ? a.Value(m, k) / a_scale : a.Value(m, k)) *
           (b_late ? b.Value(n, k) / b_scale : b.Value(n, k));
    scale = (a_late ? a_scale : 1) * (b_late ? b_scale : 1);
  }
  return static_cast<float>(sum * scale);
}

TEST(ScaledMatmulTest, EveryMixtureEqualsTheSumOfValues) {
  constexpr int64_t kM = 34, kN = 17, kK = 150;  // tails of every block
  for (const bool exact : {true, false}) {
    const ValueAt value = exact ? SmallInteger : RandomValue;
    for (const ScaledKind& a_kind : AllKinds()) {
      for (const ScaledKind& b_kind : AllKinds()) {
        if (a_kind.format == Format::kE5M2 && b_kind.format == Format::kE5M2) {
          continue;
        }
        SCOPED_TRACE(absl::StrCat(a_kind.name, " x ", b_kind.name));
        const ScaledOperand a(a_kind, kM, kK, 1, value, exact);
        const ScaledOperand b(b_kind, kN, kK, 2, value, exact);
        const QuantizedTensor a8 = Held(a);
        const QuantizedTensor b8 = Held(b);
        TestTensor out(DType::kF32, kM, kN);
        MatmulOptions options;
        options.transb = true;
        ASSERT_THAT(Matmul(a8, b8, out.view(), options, kStream), IsOk());
        for (int64_t m = 0; m < kM; ++m) {
          for (int64_t n = 0; n < kN; ++n) {
            ASSERT_EQ(out.at(m, n), Want(a, b, m, n, kK)) << m << " " << n;
          }
        }
      }
    }
  }
}

TEST(ScaledMatmulTest, EveryTranspositionAndLayoutGivesTheSameBits) {  // F6, H2
  constexpr int64_t kM = 130, kN = 48, kK = 160;
  for (const ScaledKind& kind : AllKinds()) {
    SCOPED_TRACE(kind.name);
    const ScaledOperand a(kind, kM, kK, 1, RandomValue, false);
    const ScaledOperand b(kCurrentKind, kN, kK, 2, RandomValue, false);
    const QuantizedTensor b8 = Held(b);
    MatmulOptions options;
    options.transb = true;
    TestTensor want(DType::kF32, kM, kN);
    ASSERT_THAT(Matmul(Held(a), b8, want.view(), options, kStream), IsOk());
    for (const bool tiled : {false, true}) {
      if (tiled && kind.type == ScaleType::kFloat) continue;
      for (const enum Held held : {Held::kColumnWise, Held::kOtherWay}) {
        if (held == Held::kOtherWay && !IsSquare(kind)) continue;
        TestTensor out(DType::kF32, kM, kN);
        options.transa = true;
        ASSERT_THAT(
            Matmul(Held(a, held, tiled), b8, out.view(), options, kStream),
            IsOk());
        EXPECT_EQ(out.bytes(), want.bytes());
        // As b: out^T = b a^T.
        TestTensor transposed(DType::kF32, kN, kM);
        ASSERT_THAT(
            Matmul(b8, Held(a, held, tiled), transposed.view(), {}, kStream),
            IsOk());
        EXPECT_EQ(transposed.at(47, 129), want.at(129, 47));
        EXPECT_EQ(transposed.at(0, 64), want.at(64, 0));
      }
      options.transa = false;
      TestTensor out(DType::kF32, kM, kN);
      ASSERT_THAT(Matmul(Held(a, Held::kRowWise, tiled), b8, out.view(),
                         options, kStream),
                  IsOk());
      EXPECT_EQ(out.bytes(), want.bytes());
    }
  }
}

// F5: the kind comes from the recipe, not from the shape of the scales.
TEST(ScaledMatmulTest, OneBlockAlongKIsNoPerTensorScale) {
  for (const int64_t rows : {1, 130}) {
    const ScaledOperand a(k1x128Kind, rows, 128, 1);
    const ScaledOperand b(kCurrentKind, 256, 128, 2);
    TestTensor out(DType::kF32, rows, 256);
    MatmulOptions options;
    options.transb = true;
    ASSERT_THAT(Matmul(Held(a), Held(b), out.view(), options, kStream), IsOk());
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t n = 0; n < 256; ++n) {
        ASSERT_EQ(out.at(m, n), Want(a, b, m, n, 128));
      }
    }
  }
}

TEST(ScaledMatmulTest, ACopyWhoseScalesRunTheOtherWayIsRefused) {
  const ScaledOperand b(kCurrentKind, 32, 64, 2);
  TestTensor out(DType::kF32, 32, 32);
  MatmulOptions options;
  options.transb = true;
  for (const ScaledKind& kind : AllKinds()) {
    SCOPED_TRACE(kind.name);
    const ScaledOperand a(kind, 64, 32, 1);  // 64 x 32, contracted over 64
    options.transa = true;
    const QuantizedTensor row_wise = Held(a);
    const absl::Status status =
        Matmul(row_wise, Held(b), out.view(), options, kStream);
    if (IsSquare(kind)) {
      EXPECT_THAT(status, IsOk());
      continue;
    }
    EXPECT_THAT(
        status,
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("a: got "), HasSubstr("64x32 row-wise"),
                       HasSubstr("want column-wise data (usage column_wise)"),
                       HasSubstr("contracts a's rows"))));
    // As b, untransposed: its rows are contracted too.
    EXPECT_THAT(
        Matmul(Held(b), row_wise, out.view(), {}, kStream),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("b: got "), HasSubstr("usage column_wise"))));
    // And column-wise data where rows are wanted.
    options.transa = false;
    EXPECT_THAT(Matmul(Held(ScaledOperand(kind, 64, 32, 1), Held::kColumnWise),
                       Held(b), out.view(), options, kStream),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("want row-wise data (usage row_wise)")));
  }
}

TEST(ScaledMatmulTest, HadamardMeetsHadamardOnly) {
  const ScaledOperand a(kNvfp4Kind, 32, 64, 1);
  const ScaledOperand b(kNvfp4Kind, 32, 64, 2);
  QuantizedTensor a4 = Held(a, Held::kColumnWise);
  QuantizedTensor b4 = Held(b, Held::kColumnWise);
  a4.column_wise->hadamard = true;
  TestTensor out(DType::kF32, 32, 32);
  MatmulOptions options;
  options.transa = true;
  EXPECT_THAT(Matmul(a4, b4, out.view(), options, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a is Hadamard-transformed along K and b is "
                                 "not")));
  TestTensor plain(DType::kF32, 64, 32);
  EXPECT_THAT(
      Matmul(a4, plain.view(), out.view(), options, kStream),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Hadamard")));
  b4.column_wise->hadamard = true;
  EXPECT_THAT(Matmul(a4, b4, out.view(), options, kStream), IsOk());
}

TEST(ScaledMatmulTest, ScaleBytesDecodeAsE8M0) {  // D5
  const std::pair<uint8_t, float> cases[] = {
      {0, 0x1p-127f}, {1, 0x1p-126f}, {127, 1.0f}, {254, 0x1p127f}, {255, NAN}};
  const auto one = [](int64_t, int64_t, uint32_t) { return 1.0f; };
  for (const auto& [byte, want] : cases) {
    QuantizedTensor a = Held(ScaledOperand(kMxfp8Kind, 1, 32, 1, one));
    a.row_wise->scale_inv.as<uint8_t>()[0] = byte;
    TestTensor b = TestTensor::Of(DType::kF32, 32, 1, [](int64_t r, int64_t) {
      return r == 0 ? 1.0f : 0.0f;
    });
    TestTensor out(DType::kF32, 1, 1);
    ASSERT_THAT(Matmul(a, b.view(), out.view(), {}, kStream), IsOk());
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(out.at(0, 0)));
    } else {
      EXPECT_EQ(out.at(0, 0), want);
    }
  }
}

// 0, 1, 2, ... whatever its codes are.
class CountingDequantizer : public Dequantizer {
 public:
  absl::Status DequantizeTo(const QuantizedTensor& q, const TensorView& out,
                            Stream) const override {
    if (fails) return absl::UnimplementedError("not today");
    ++reads;
    if (meanwhile) meanwhile();
    for (int64_t r = 0; r < q.rows; ++r) {
      for (int64_t c = 0; c < q.cols; ++c) {
        StoreFloat(out.dtype, static_cast<float>(r * q.cols + c), out.data,
                   r * out.row_stride + c * out.col_stride);
      }
    }
    return absl::OkStatus();
  }
  bool fails = false;
  mutable int reads = 0;
  std::function<void()> meanwhile;  // before it writes
};

TEST(ScaledMatmulTest, CustomTensorsAreReadByTheirMaker) {
  CountingDequantizer maker;
  QuantizedTensor custom = Held(ScaledOperand(kCurrentKind, 2, 3, 1));
  custom.scaling = Scaling::kCustom;
  custom.dequantizer = &maker;
  TestTensor identity =
      TestTensor::Of(DType::kF32, 3, 3,
                     [](int64_t r, int64_t c) { return r == c ? 1.0f : 0.0f; });
  TestTensor out(DType::kF32, 2, 3);
  ASSERT_THAT(Matmul(custom, identity.view(), out.view(), {}, kStream), IsOk());
  EXPECT_EQ(out.at(1, 0), 3.0f);
  EXPECT_EQ(out.at(1, 2), 5.0f);
  MatmulOptions transposed;
  transposed.transb = true;
  TestTensor as_b(DType::kF32, 3, 2);
  ASSERT_THAT(Matmul(identity.view(), custom, as_b.view(), transposed, kStream),
              IsOk());
  EXPECT_EQ(as_b.at(2, 1), 5.0f);
  TestTensor square(DType::kF32, 2, 2);
  ASSERT_THAT(Matmul(custom, custom, square.view(), transposed, kStream),
              IsOk());
  EXPECT_EQ(square.at(0, 1), 0 * 3 + 1 * 4 + 2 * 5);
  maker.fails = true;
  EXPECT_THAT(
      Matmul(custom, identity.view(), out.view(), {}, kStream),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("not today")));
}

// A maker's own products, of custom tensors too, leave ours alone.
TEST(ScaledMatmulTest, AMakerMayMultiply) {
  CountingDequantizer inner_maker, maker;
  QuantizedTensor inner = Held(ScaledOperand(kCurrentKind, 40, 30, 1));
  inner.scaling = Scaling::kCustom;
  inner.dequantizer = &inner_maker;
  TestTensor inner_out(DType::kF32, 40, 40);
  maker.meanwhile = [&] {
    MatmulOptions options;
    options.transb = true;
    EXPECT_THAT(Matmul(inner, inner, inner_out.view(), options, kStream),
                IsOk());
  };
  QuantizedTensor custom = Held(ScaledOperand(kCurrentKind, 2, 3, 1));
  custom.scaling = Scaling::kCustom;
  custom.dequantizer = &maker;
  MatmulOptions options;
  options.transb = true;
  TestTensor out(DType::kF32, 2, 2);
  QuantizedTensor again = Held(ScaledOperand(kCurrentKind, 2, 3, 1));
  again.scaling = Scaling::kCustom;
  again.dequantizer = &maker;
  ASSERT_THAT(Matmul(custom, again, out.view(), options, kStream), IsOk());
  EXPECT_EQ(out.at(0, 0), 0 * 0 + 1 * 1 + 2 * 2);
  EXPECT_EQ(out.at(0, 1), 0 * 3 + 1 * 4 + 2 * 5);
  EXPECT_EQ(out.at(1, 1), 3 * 3 + 4 * 4 + 5 * 5);
  EXPECT_EQ(maker.reads, 2);
}

TEST(ScaledMatmulTest, GridsThatDoNotFitAreRefused) {
  const ScaledOperand a(k1x128Kind, 4, 300, 1);
  TestTensor b(DType::kF32, 300, 2);
  TestTensor out(DType::kF32, 4, 2);
  const auto refused = [&](const QuantizedTensor& tensor,
                           const std::string& text) {
    EXPECT_THAT(Matmul(tensor, b.view(), out.view(), {}, kStream),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  QuantizedTensor tensor = Held(a);
  tensor.row_wise->scales.cols = 2;
  refused(tensor, "a.row_wise.scale");
  tensor = Held(a);
  tensor.row_wise->scales.col_stride = 5;
  refused(tensor, "a.row_wise.scale_inv: got 48 bytes");
  tensor = Held(ScaledOperand(kNvfp4Kind, 4, 300, 1));
  tensor.row_wise->scales.tensor_scale_inv = nullptr;
  refused(tensor, "tensor_scale_inv: got ");
}

}  // namespace
}  // namespace scalekeeper
