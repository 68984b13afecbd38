// Faults that others reported of FP32 block scalings, as small inputs and right
// values; what all block scalings have in common; where scales lie.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quantizer/block_kernels.h"
#include "quantizer/block_quantizer.h"
#include "quantizer/scale_grid.h"
#include "tests/quantizer/block_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kMax = std::numeric_limits<float>::max();
constexpr Usages kRow = {true, false};
constexpr Usages kBoth = {true, true};

// Tensors of experts: whatever the number of tokens, none at all included.
TEST(BlockCasesTest, AnyNumberOfRows) {  // D12, G1
  for (const Policy& policy : AllBlockPolicies()) {
    for (const int64_t rows : {64, 33, 5, 3, 8, 0}) {
      BlockRig rig(policy, kBoth);
      TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, rows, 64);
      const QuantizedTensor q = rig.Quantize(x);
      EXPECT_EQ(rig.Dequantize(q).size(), static_cast<size_t>(rows) * 64);
      EXPECT_EQ(rig.amax == 0, rows == 0);
    }
    BlockRig rig(policy, kBoth);
    TestTensor no_columns(DType::kF32, 5, 0);
    const QuantizedTensor q = rig.Quantize(no_columns);
    EXPECT_THAT(rig.Dequantize(q), ElementsAre());
  }
}

// Their amax is 0, whatever their scales were before.
TEST(BlockCasesTest, RowsWithoutElementsHaveScales) {
  Policy policy = RowwisePolicy();
  policy.current.amax_epsilon = 7;
  for (const Usages usages : {kRow, kBoth}) {
    BlockRig rig(policy, usages);
    TestTensor x(DType::kF32, 3, 0);
    absl::StatusOr<QuantizedTensor> made = rig.quantizer.MakeEmpty(3, 0);
    ASSERT_THAT(made, IsOk());
    QuantizedTensor& q = *made;
    uint32_t flag = 1;
    ASSERT_THAT(rig.quantizer.QuantizeInto(x.view(), &q, &flag, Stream{}),
                IsOk());
    EXPECT_THAT(StoredScales(*q.row_wise), Each(oracle::BitsOfFloat(1.0f)));
    flag = 0;
    ASSERT_THAT(rig.quantizer.QuantizeInto(x.view(), &q, &flag, Stream{}),
                IsOk());
    EXPECT_THAT(StoredScales(*q.row_wise),
                Each(oracle::BitsOfFloat(1 / 64.0f)));
    EXPECT_EQ(rig.amax, 0u);
  }
  BlockRig columns(policy, kBoth);
  TestTensor x(DType::kF32, 0, 2);
  EXPECT_THAT(StoredScales(*columns.Quantize(x).column_wise),
              ElementsAre(oracle::BitsOfFloat(1 / 64.0f),
                          oracle::BitsOfFloat(1 / 64.0f)));
}

// The quotient of a row of subnormals overflows: FLT_MAX, also in bfloat16,
// whose largest value is what a block would take.
TEST(BlockCasesTest, ARowsScaleThatOverflowsIsTheLargestFloat) {  // P5
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TestTensor x = TestTensor::Row(dtype, {0, 1e-38f});
    BlockRig rig(RowwisePolicy(), kRow);
    EXPECT_THAT(StoredScales(*rig.Quantize(x).row_wise),
                ElementsAre(0x00200000u));
    Policy power_2 = RowwisePolicy();
    power_2.current.power_2_scale = true;
    BlockRig rounded(power_2, kRow);
    EXPECT_THAT(StoredScales(*rounded.Quantize(x).row_wise),
                ElementsAre(0x00400000u));
  }
}

TEST(BlockCasesTest, FloatScaleTable) {
  struct Row {
    float amax;
    bool power_2;
    float epsilon;
    DType dtype;
    uint32_t scale_inv;
  };
  const uint32_t two_minus_7 = oracle::BitsOfFloat(0.0078125f);
  for (const Row& row :
       std::vector<Row>{{1, false, 0, DType::kF32, 0x3B124925},
                        {3, false, 0, DType::kF32, 0x3BDB6DB7},
                        {3, true, 0, DType::kF32, two_minus_7},
                        {448, true, 0, DType::kF32, 0x3F800000},
                        {449, true, 0, DType::kF32, 0x40000000},
                        {0, false, 1e-4f, DType::kF32, 0x346FACAD},
                        {0, true, 1e-4f, DType::kF32, 0x34800000},
                        {1e-38f, false, 0, DType::kF32, 0x00200000},
                        {1e-38f, true, 0, DType::kF32, 0x00400000},
                        {1e-38f, false, 0, DType::kBF16, 0x00202020},
                        {kMax, false, 0, DType::kF32, 0x7B124924},
                        {kMax, true, 0, DType::kF32, 0x7B800000},
                        {0, false, 0, DType::kF32, 0x3F800000}}) {
    Policy policy = Fp32Blocks(BlockShape::k1x128);
    policy.block.power_2_scale = row.power_2;
    policy.block.amax_epsilon = row.epsilon;
    TestTensor x = TestTensor::Row(row.dtype, {0, row.amax});
    BlockRig rig(policy, kRow);
    const QuantizedTensor q = rig.Quantize(x);
    EXPECT_THAT(StoredScales(*q.row_wise), ElementsAre(row.scale_inv))
        << row.amax << " " << row.power_2;
  }
}

std::vector<float> ScaleInverses(const QuantizedData& data) {
  std::vector<float> scales;
  for (const uint32_t bits : StoredScales(data)) {
    scales.push_back(oracle::FloatOfBits(bits));
  }
  return scales;
}

TEST(BlockCasesTest, TailAlongK) {  // F2
  std::vector<float> values(300, 1.0f);
  std::fill(values.begin() + 256, values.end(), 4.0f);
  TestTensor x = TestTensor::Row(DType::kBF16, values);
  BlockRig rig(Fp32Blocks(BlockShape::k1x128), kRow);
  EXPECT_THAT(ScaleInverses(*rig.Quantize(x).row_wise),
              ElementsAre(1 / 448.0f, 1 / 448.0f, 1 / 112.0f));
}

TEST(BlockCasesTest, GridShapes) {  // F2
  struct Row {
    int64_t rows, cols, line_cols, square_rows, square_cols;
  };
  for (const Row& row :
       {Row{1000, 300, 3, 8, 3}, Row{1, 1, 1, 1, 1}, Row{128, 129, 2, 1, 2},
        Row{257, 128, 1, 3, 1}, Row{0, 256, 2, 0, 2}}) {
    const BlockScales line = ScaleGrid(Fp32Blocks(BlockShape::k1x128), row.rows,
                                       row.cols, ScalePlacement::kCompact);
    EXPECT_EQ(line.rows, row.rows);
    EXPECT_EQ(line.cols, row.line_cols);
    const BlockScales square =
        ScaleGrid(Fp32Blocks(BlockShape::k128x128), row.rows, row.cols,
                  ScalePlacement::kCompact);
    EXPECT_EQ(square.rows, row.square_rows);
    EXPECT_EQ(square.cols, row.square_cols);
  }
}

TEST(BlockCasesTest, ShardEdgeInsideABlock) {  // F3
  const BlockScales grid = ScaleGrid(Fp32Blocks(BlockShape::k128x128), 14848,
                                     128, ScalePlacement::kCompact);
  EXPECT_EQ(grid.rows, 116);
  const auto block = [&](int64_t row) {
    return ScaleOffsetOfCode(grid, row, 0);
  };
  // Eight groups of 1856 rows: group 1 uses blocks 14 (from row 64) to 28.
  EXPECT_EQ(block(1856), 14);
  EXPECT_EQ(1856 - 14 * grid.block_rows, 64);
  EXPECT_EQ(block(3711), 28);
  EXPECT_EQ(block(1855), block(1856));
  EXPECT_NE(block(3711), block(3712));
}

TEST(BlockCasesTest, NeighboursDoNotMix) {  // F4
  TestTensor x = TestTensor::Of(DType::kBF16, 1, 1024, [](int64_t, int64_t c) {
    return c < 512 ? 1.0f : 8192.0f;
  });
  const float k1 = 1 / 448.0f, k8192 = 1 / 0.0546875f;
  BlockRig rig(Fp32Blocks(BlockShape::k1x128), kRow);
  EXPECT_THAT(ScaleInverses(*rig.Quantize(x).row_wise),
              ElementsAre(k1, k1, k1, k1, k8192, k8192, k8192, k8192));
  // Every group size that some scaling has, at every edge.
  for (const Policy& policy : {Fp32Blocks(BlockShape::k1x128), Mxfp8Policy(),
                               Nvfp4Policy(), RowwisePolicy()}) {
    BlockRig any(policy, kRow);
    const QuantizedTensor q = any.Quantize(x);
    const std::vector<float> back = any.Dequantize(q);
    EXPECT_EQ(back[1023], 8192.0f);
    EXPECT_EQ(back[512], 8192.0f);
    if (policy.scaling == Scaling::kBlock ||
        policy.scaling == Scaling::kMxfp8) {
      EXPECT_EQ(back[511], 1.0f);
    }
  }
}

TEST(BlockCasesTest, TheModeIsNotGuessedFromTheShape) {  // F5
  for (const int64_t rows : {1, 130}) {
    BlockRig rig(Fp32Blocks(BlockShape::k1x128), kRow);
    TestTensor x = TestTensor::Of(
        DType::kF32, rows, 128,
        [](int64_t r, int64_t) { return static_cast<float>(r + 1); });
    const QuantizedTensor q = rig.Quantize(x);
    EXPECT_EQ(q.row_wise->scales.rows, rows);
    EXPECT_EQ(q.row_wise->scales.cols, 1);
    const std::vector<float> back = rig.Dequantize(q);
    for (int64_t r = 0; r < rows; ++r) {
      EXPECT_FLOAT_EQ(back[static_cast<size_t>(r * 128)],
                      static_cast<float>(r + 1));
    }
  }
}

TEST(BlockCasesTest, OneScaleIsOfATensorOrOfABlock) {  // F5
  const Policy tensor = BlockPolicy(Scaling::kCurrent, Format::kE4M3);
  const Policy block = Fp32Blocks(BlockShape::k128x128);
  for (const int64_t side : {256, 100}) {
    const BlockScales one =
        ScaleGrid(tensor, side, side, ScalePlacement::kCompact);
    EXPECT_EQ(std::pair(one.rows, one.cols), std::pair(int64_t{1}, int64_t{1}));
    EXPECT_EQ(one.block_rows, side);
    const BlockScales blocks =
        ScaleGrid(block, side, side, ScalePlacement::kCompact);
    EXPECT_EQ(blocks.rows, side == 256 ? 2 : 1);
    EXPECT_EQ(blocks.block_rows, 128);
  }
  // Of a weight whose grid has one entry the block's scale reads back alone.
  BlockRig rig(block, kBoth);
  TestTensor w = FillTensor(Fill::kPlain, DType::kBF16, 100, 100);
  QuantizedTensor q = rig.Quantize(w);
  EXPECT_EQ(StoredScales(*q.row_wise).size(), 1u);
  EXPECT_EQ(q.scaling, Scaling::kBlock);
}

TEST(BlockCasesTest, TransposedWeight) {  // F6
  TestTensor w =
      TestTensor::Of(DType::kBF16, 256, 128, [](int64_t r, int64_t c) {
        return c == 5 ? (r < 128 ? 1.0f : 8.0f) : 0.3f;
      });
  BlockRig rig(Fp32Blocks(BlockShape::k128x128), kBoth);
  QuantizedTensor q = rig.Quantize(w);
  EXPECT_EQ(q.row_wise->scales.rows, 2);
  EXPECT_EQ(q.column_wise->scales.cols, 2);
  EXPECT_THAT(ScaleInverses(*q.row_wise), ElementsAre(1 / 448.0f, 1 / 56.0f));
  EXPECT_THAT(ScaleInverses(*q.column_wise),
              ElementsAre(1 / 448.0f, 1 / 56.0f));
  const std::vector<float> row_wise = rig.Dequantize(q);
  q.row_wise.reset();
  EXPECT_EQ(rig.Dequantize(q), row_wise);
}

TEST(BlockCasesTest, ScalesOfAnotherTypeAreRefused) {  // F7
  BlockRig mx(Mxfp8Policy(), kRow);
  BlockRig block(Fp32Blocks(BlockShape::k1x128), kRow);
  TestTensor x = TestTensor::Row(DType::kF32, std::vector<float>(32, 1.0f));
  QuantizedTensor q = mx.Quantize(x);
  q.row_wise->scales = block.Quantize(x).row_wise->scales;
  TestTensor out(DType::kF32, 1, 32);
  EXPECT_THAT(mx.quantizer.Dequantize(q, out.view(), Stream{}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("scales: got float32, want E8M0")));
}

TEST(BlockCasesTest, TensorsOfAnotherShapeOfBlockAreRefused) {
  TestTensor x = FillTensor(Fill::kPlain, DType::kF32, 64, 64);
  BlockRig lines(Fp32Blocks(BlockShape::k1x128), kRow);
  BlockRig squares(Fp32Blocks(BlockShape::k128x128), kRow);
  QuantizedTensor q = lines.Quantize(x);
  EXPECT_THAT(squares.quantizer.QuantizeInto(x.view(), &q, nullptr, Stream{}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("out: got block 1x128 E4M3 64x64")));
}

TEST(BlockCasesTest, NoopFlagLeavesEverything) {
  for (const Policy& policy : AllBlockPolicies()) {
    BlockRig rig(policy, kBoth);
    TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 32, 48);
    TestTensor other = FillTensor(Fill::kWide, DType::kBF16, 32, 48);
    QuantizedTensor q = rig.Quantize(x);
    const std::vector<float> before = rig.Dequantize(q);
    const uint32_t amax = rig.amax;
    uint32_t flag = 1;
    ASSERT_THAT(rig.quantizer.QuantizeInto(other.view(), &q, &flag, Stream{}),
                IsOk());
    EXPECT_EQ(rig.Dequantize(q), before);
    EXPECT_EQ(rig.amax, amax);
    flag = 0;
    ASSERT_THAT(rig.quantizer.QuantizeInto(other.view(), &q, &flag, Stream{}),
                IsOk());
    EXPECT_NE(rig.Dequantize(q), before);
  }
}

TEST(BlockMeasureTest, CountsWhatDequantizeGives) {
  for (const Policy& policy : AllBlockPolicies()) {
    for (const Fill fill : {Fill::kPlain, Fill::kWild}) {
      BlockRig rig(policy, kRow);
      TestTensor x = FillTensor(fill, DType::kBF16, 100, 200);
      absl::StatusOr<Statistics> s = rig.quantizer.Measure(x.view(), Stream{});
      ASSERT_THAT(s, IsOk());
      EXPECT_EQ(rig.amax, 0u) << "observed";
      const std::vector<float> back = rig.Dequantize(rig.Quantize(x));
      double signal = 0, error = 0;
      for (int64_t r = 0; r < 100; ++r) {
        for (int64_t c = 0; c < 200; ++c) {
          const double v = x.at(r, c);
          if (!std::isfinite(v)) continue;
          const double lost = v - back[static_cast<size_t>(r * 200 + c)];
          signal += v * v;
          error += lost * lost;
        }
      }
      EXPECT_EQ(s->count, 20000);
      if (std::isfinite(error)) {
        EXPECT_DOUBLE_EQ(s->signal, signal);
        EXPECT_DOUBLE_EQ(s->error, error);
      }
      EXPECT_EQ(s->amax_bits, rig.amax);
      EXPECT_EQ(s->nonzero, static_cast<int64_t>(rig.counters.nonzero));
      EXPECT_EQ(s->underflow, static_cast<int64_t>(rig.counters.underflow));
      EXPECT_EQ(s->non_finite, static_cast<int64_t>(rig.counters.non_finite));
    }
  }
}

// The layout of GPUs: whole tiles, offsets as cuBLASLt documents them.
TEST(ScaleGridTest, Tiles) {
  const BlockScales grid =
      ScaleGrid(Mxfp8Policy(), 200, 300, ScalePlacement::kGpuTiled);
  EXPECT_EQ(grid.layout, ScaleLayout::kTiled);
  EXPECT_EQ(grid.cols, 10);
  EXPECT_EQ(ScaleBytes(grid, 200), 2u * 3u * 512u);
  EXPECT_EQ(ScaleOffset(grid, 0, 0), 0);
  EXPECT_EQ(ScaleOffset(grid, 1, 0), 16);
  EXPECT_EQ(ScaleOffset(grid, 32, 1), 5);
  EXPECT_EQ(ScaleOffset(grid, 0, 4), 512);
  EXPECT_EQ(ScaleOffset(grid, 129, 9), 5 * 512 + 16 + 1);
}

TEST(ScaleGridTest, FloatsOnGpus) {
  const BlockScales line =
      ScaleGrid(Fp32Blocks(BlockShape::k1x128), 200, 300, ScalePlacement::kGpu);
  EXPECT_EQ(line.row_stride, 1);
  EXPECT_EQ(line.col_stride, 200);
  EXPECT_EQ(ScaleBytes(line, 200), 200u * 3u * 4u);
  const BlockScales square = ScaleGrid(Fp32Blocks(BlockShape::k128x128), 200,
                                       300, ScalePlacement::kGpu);
  EXPECT_EQ(square.row_stride, 4);
  EXPECT_EQ(ScaleBytes(square, 200), 2u * 4u * 4u);
}

// The host kernels write any layout: a tile's bytes are the compact ones.
TEST(BlockKernelsTest, TiledScales) {
  Policy policy = Mxfp8Policy();
  for (const bool square : {false, true}) {
    policy.mxfp8.two_dimensional = square;
    TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 130, 200);
    BlockRig rig(policy, kRow);
    const QuantizedTensor q = rig.Quantize(x);
    BlockScales tiled = ScaleGrid(policy, 130, 200, ScalePlacement::kGpuTiled);
    std::vector<uint8_t> bytes(ScaleBytes(tiled, 130), 0);
    std::vector<uint8_t> codes(130 * 200);
    tiled.data = bytes.data();
    kernels::BlockCastOutput out;
    out.row_wise.codes = codes.data();
    out.row_wise.scales = tiled;
    ASSERT_THAT(kernels::BlockCast(x.view(), {}, out, {}, Stream{}), IsOk());
    EXPECT_EQ(codes, UnpackedCodes(q, false));
    size_t nonzero = 0;
    for (int64_t r = 0; r < 130; ++r) {
      for (int64_t c = 0; c < 7; ++c) {
        const uint8_t* compact = q.row_wise->scale_inv.as<uint8_t>();
        const int64_t row = square ? r / 32 : r;
        EXPECT_EQ(bytes[static_cast<size_t>(ScaleOffset(tiled, r, c))],
                  compact[row * 7 + c]);
      }
    }
    for (const uint8_t byte : bytes) nonzero += byte != 0;
    EXPECT_LE(nonzero, 130u * 7u);
    TestTensor back(DType::kF32, 130, 200);
    ASSERT_THAT(kernels::BlockDecode(codes.data(), Format::kE4M3, tiled, false,
                                     back.view(), Stream{}),
                IsOk());
    const std::vector<float> want = rig.Dequantize(q);
    for (int64_t i = 0; i < 130 * 200; ++i) {
      ASSERT_EQ(back.at(i / 200, i % 200), want[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace
}  // namespace scalekeeper
