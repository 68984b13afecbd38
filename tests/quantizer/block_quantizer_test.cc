// Truth: every block scaling, option, input dtype, use and tail shape against
// tests/quantizer/block_oracle.h, bit for bit, with guards around all memory
// (D13).
#include "quantizer/block_quantizer.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/quantizer/block_oracle.h"
#include "tests/quantizer/block_testing.h"

namespace scalekeeper {
namespace {

using oracle::BlockOracle;
using oracle::BlockResult;
using oracle::BlockRules;
using oracle::Kind;
using oracle::Matrix;
using oracle::ScaleKind;

// A policy, and the same said to the oracle.
struct Subject {
  const char* name;
  Policy policy;
  BlockRules rules;
};

Subject Floats(const char* name, Scaling scaling, Format format,
               BlockShape shape, bool power_2, float epsilon) {
  Subject s = {name, BlockPolicy(scaling, format), {}};
  s.rules.code = format == Format::kE4M3 ? Kind::kE4M3 : Kind::kE5M2;
  s.rules.power_2 = power_2;
  s.rules.epsilon = epsilon;
  if (scaling == Scaling::kRowwise) {
    s.policy.current.power_2_scale = power_2;
    s.policy.current.amax_epsilon = epsilon;
    s.rules.block_cols = 0;
  } else {
    s.policy.block = {shape, power_2, epsilon};
    s.rules.block_rows = shape == BlockShape::k128x128 ? 128 : 1;
  }
  return s;
}

Subject Mx(const char* name, Format format, bool floor, bool square) {
  Subject s = {name, BlockPolicy(Scaling::kMxfp8, format), {}};
  s.policy.mxfp8 = {floor ? ScaleRounding::kOcpFloor : ScaleRounding::kUp,
                    square};
  s.rules.scale = ScaleKind::kE8M0;
  s.rules.code = format == Format::kE4M3 ? Kind::kE4M3 : Kind::kE5M2;
  s.rules.floor = floor;
  s.rules.block_rows = square ? 32 : 1;
  s.rules.block_cols = 32;
  return s;
}

struct Nv {
  bool square = false, stochastic = false, hadamard = false, four = false;
};

Subject Nvfp4(const char* name, Nv nv) {
  Subject s = {name, BlockPolicy(Scaling::kNvfp4, Format::kE2M1), {}};
  s.policy.nvfp4.two_dimensional = nv.square;
  s.policy.nvfp4.stochastic_rounding = nv.stochastic;
  s.policy.nvfp4.random_hadamard = nv.hadamard;
  s.policy.nvfp4.four_over_six = nv.four;
  s.policy.nvfp4.seed = -77;
  s.rules.scale = ScaleKind::kE4M3;
  s.rules.code = Kind::kE2M1;
  s.rules.block_rows = nv.square ? 16 : 1;
  s.rules.block_cols = 16;
  s.rules.stochastic = nv.stochastic;
  s.rules.hadamard = nv.hadamard;
  s.rules.four_over_six = nv.four;
  s.rules.seed = -77;
  s.rules.name = "m/input";
  s.rules.step = 5;
  return s;
}

std::vector<Subject> Subjects() {
  constexpr Format kE4M3 = Format::kE4M3, kE5M2 = Format::kE5M2;
  constexpr BlockShape kLine = BlockShape::k1x128;
  constexpr BlockShape kSquare = BlockShape::k128x128;
  constexpr Scaling kRows = Scaling::kRowwise, kBlocks = Scaling::kBlock;
  return {
      Floats("Rowwise", kRows, kE4M3, kLine, false, 0),
      Floats("RowwisePow2E5M2", kRows, kE5M2, kLine, true, 0),
      Floats("RowwiseEpsilon", kRows, kE4M3, kLine, false, 1e-2f),
      Floats("Block1x128", kBlocks, kE4M3, kLine, false, 0),
      Floats("Block1x128Pow2", kBlocks, kE4M3, kLine, true, 0),
      Floats("Block1x128E5M2Epsilon", kBlocks, kE5M2, kLine, true, 1e-2f),
      Floats("Block128x128", kBlocks, kE4M3, kSquare, false, 0),
      Floats("Block128x128Pow2E5M2", kBlocks, kE5M2, kSquare, true, 0),
      Mx("Mxfp8", kE4M3, false, false),
      Mx("Mxfp8E5M2", kE5M2, false, false),
      Mx("Mxfp8Floor", kE4M3, true, false),
      Mx("Mxfp8FloorE5M2", kE5M2, true, false),
      Mx("Mxfp8Square", kE4M3, false, true),
      Nvfp4("Nvfp4", {}),
      Nvfp4("Nvfp4Square", {true}),
      Nvfp4("Nvfp4Stochastic", {false, true}),
      Nvfp4("Nvfp4StochasticSquare", {true, true}),
      Nvfp4("Nvfp4Hadamard", {false, false, true}),
      Nvfp4("Nvfp4HadamardStochastic", {false, true, true}),
      Nvfp4("Nvfp4FourOverSix", {false, false, false, true}),
      Nvfp4("Nvfp4FourOverSixSquare", {true, false, false, true}),
  };
}

float RoundTo(DType dtype, float x) {
  if (dtype == DType::kF32) return x;
  const Kind kind = dtype == DType::kBF16 ? Kind::kBF16 : Kind::kF16;
  return static_cast<float>(oracle::Decode(kind, oracle::Encode(kind, x)));
}

float LargestOf(DType dtype) {
  if (dtype == DType::kF32) return std::numeric_limits<float>::max();
  return dtype == DType::kBF16 ? std::ldexp(255.0f, 120) : 65504.0f;
}

bool SameFloat(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         oracle::BitsOfFloat(a) == oracle::BitsOfFloat(b);
}

template <typename T>
std::vector<T> Turned(const std::vector<T>& v, int64_t rows, int64_t cols) {
  std::vector<T> t;
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) t.push_back(v[r * cols + c]);
  }
  return t;
}

// What a use must hold.
BlockResult Expected(const Subject& subject, const Matrix& x, DType dtype,
                     bool column_wise) {
  BlockRules rules = subject.rules;
  rules.round = [dtype](float v) { return RoundTo(dtype, v); };
  if (subject.policy.scaling == Scaling::kBlock) {
    rules.overflow = LargestOf(dtype);
  }
  if (!column_wise) {
    rules.hadamard = false;
    return BlockOracle(x, rules).Run();
  }
  if (rules.block_rows == 1) return BlockOracle(x.Transposed(), rules).Run();
  BlockResult q = BlockOracle(x, rules).Run();
  q.codes = Turned(q.codes, x.rows, x.cols);
  q.back = Turned(q.back, x.rows, x.cols);
  q.stored = Turned(q.stored, q.grid_rows, q.grid_cols);
  std::swap(q.grid_rows, q.grid_cols);
  return q;
}

void ExpectUse(const QuantizedTensor& q, bool column_wise,
               const BlockResult& want) {
  const QuantizedData& data = column_wise ? *q.column_wise : *q.row_wise;
  EXPECT_EQ(UnpackedCodes(q, column_wise), want.codes);
  EXPECT_EQ(data.scales.tensor_scale_inv != nullptr,
            q.scaling == Scaling::kNvfp4);
  if (q.rows * q.cols == 0) return;
  EXPECT_EQ(data.scales.rows, want.grid_rows);
  EXPECT_EQ(data.scales.cols, want.grid_cols);
  EXPECT_EQ(StoredScales(data), want.stored);
  if (q.scaling == Scaling::kNvfp4) {
    EXPECT_EQ(*data.scales.tensor_scale_inv, want.tensor_inverse);
  }
}

// Undoes the transform along rows of 16, in float32.
std::vector<float> Inverse(const std::vector<float>& y, int64_t cols) {
  const std::string signs = "+++-+------+-+--";
  Matrix m{static_cast<int64_t>(y.size()) / std::max<int64_t>(cols, 1), cols,
           y};
  for (size_t i = 0; i < y.size(); ++i) {
    if (signs[i % 16] == '-') m.v[i] = -m.v[i];
  }
  std::vector<float> x = oracle::HadamardOf(m, [](float v) { return v; }).v;
  for (size_t i = 0; i < x.size(); ++i) {
    if (signs[i % 16] == '-') x[i] = -x[i];
  }
  return x;
}

class BlockTruthTest
    : public ::testing::TestWithParam<std::tuple<Subject, DType>> {
 protected:
  const Subject& subject() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  bool transforms() const { return subject().rules.hadamard; }

  void Check(Fill fill, int64_t rows, int64_t cols, Layout layout,
             Usages usages) {
    SCOPED_TRACE(testing::Message()
                 << rows << "x" << cols << " fill " << static_cast<int>(fill)
                 << " layout " << static_cast<int>(layout) << " "
                 << usages.ToString());
    TestTensor x = FillTensor(fill, dtype(), rows, cols, layout);
    const Matrix values = ValuesOf(x, rows, cols);
    BlockRig rig(subject().policy, usages);
    QuantizedTensor q = rig.Quantize(x);

    uint32_t amax = 0;
    for (const float v : values.v) {
      amax = std::max(amax, oracle::BitsOfFloat(v) & 0x7FFFFFFF);
    }
    if (transforms() && usages.column_wise) {
      amax = std::max(amax, TransformedFlag(values));
    }
    EXPECT_EQ(rig.amax, amax);
    BlockResult first;
    for (const bool column_wise : {true, false}) {
      if (!(column_wise ? usages.column_wise : usages.row_wise)) continue;
      first = Expected(subject(), values, dtype(), column_wise);
      ExpectUse(q, column_wise, first);
    }
    EXPECT_EQ(rig.counters.nonzero, first.nonzero);
    EXPECT_EQ(rig.counters.underflow, first.underflow);
    EXPECT_EQ(rig.counters.saturation, first.saturation);
    EXPECT_EQ(rig.counters.non_finite, first.non_finite);

    std::vector<float> want = first.back;
    if (!usages.row_wise) {
      if (transforms()) want = Inverse(want, rows);
      want = Turned(want, cols, rows);
    }
    const std::vector<float> got = rig.Dequantize(q);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(SameFloat(got[i], want[i]))
          << i << ": got " << got[i] << ", want " << want[i];
    }
  }

  // Infinity, where the transform gives something that is not finite.
  uint32_t TransformedFlag(const Matrix& x) const {
    constexpr uint32_t kInfinity = 0x7F800000;
    const Matrix y = oracle::HadamardOf(
        x.Transposed(), [this](float v) { return RoundTo(dtype(), v); });
    for (const float v : y.v) {
      if ((oracle::BitsOfFloat(v) & kInfinity) == kInfinity) return kInfinity;
    }
    return 0;
  }

  // Of a transform, the next number of rows that it takes.
  int64_t Rows(int64_t rows) const {
    return transforms() ? (rows + 15) / 16 * 16 : rows;
  }
};

TEST_P(BlockTruthTest, TailShapes) {
  constexpr int64_t kShapes[][2] = {{1, 1},     {1, 15},  {17, 33},
                                    {127, 129}, {0, 256}, {128, 129},
                                    {257, 128}, {33, 64}};
  for (const auto& [rows, cols] : kShapes) {
    for (const Fill fill : {Fill::kPlain, Fill::kWide, Fill::kWild}) {
      Check(fill, Rows(rows), cols, Layout::kContiguous, {true, true});
    }
  }
}

TEST_P(BlockTruthTest, FewerRowsOrColumnsThanATile) {  // D13
  if (dtype() != DType::kBF16) return;  // D13 is about where bytes go
  Check(Fill::kPlain, 128, 256, Layout::kContiguous, {true, true});
  Check(Fill::kPlain, 384, 128, Layout::kContiguous, {true, true});
}

TEST_P(BlockTruthTest, ManyBlocks) {
  Check(Fill::kPlain, Rows(300), 1000, Layout::kContiguous, {true, true});
}

TEST_P(BlockTruthTest, UsesAndLayouts) {
  for (const Layout layout : kLayouts) {
    for (const Usages usages : {Usages{true, false}, Usages{false, true}}) {
      Check(Fill::kPlain, Rows(17), 150, layout, usages);
    }
  }
}

std::string TestName(
    const testing::TestParamInfo<std::tuple<Subject, DType>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" +
         std::string(Name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BlockTruthTest,
    testing::Combine(testing::ValuesIn(Subjects()),
                     testing::ValuesIn(kHighPrecisionDTypes)),
    TestName);

}  // namespace
}  // namespace scalekeeper
