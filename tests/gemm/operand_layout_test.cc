// How each chip takes operands: scale modes, placements, tiles and refusals,
// without a chip.
#include "gemm/operand_layout.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gemm/native_product.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gemm/scaled_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A tensor and the input that Matmul makes of it.
struct Held8 {
  Held8(const ScaledKind& kind, int64_t outer, int64_t depth, bool tiled,
        Held held = Held::kRowWise, uint32_t seed = 1)
      : operand(kind, outer, depth, seed),
        tensor(*operand.Make(Device::Host(), held, tiled)) {
    // The product contracts what runs along `depth`.
    const bool transpose = held != Held::kRowWise;
    input = *MakeInput(tensor, "a", transpose, /*wants_row_wise=*/!transpose);
  }
  ScaledOperand operand;
  QuantizedTensor tensor;
  MatmulInput input;  // outer x depth
};

MatmulInput Plain(DType dtype, const void* data, int64_t rows, int64_t cols) {
  MatmulInput input;
  input.values = ConstTensorView(BasicTensorView<const void*>::Contiguous(
      data, dtype, rows, cols, Device::Host()));
  return input;
}

TEST(NativeProductTest, ScaleModesByKindAndChip) {
  const Held8 current(kCurrentKind, 32, 128, false);
  const Held8 rowwise(kRowwiseKind, 32, 128, false);
  const Held8 line(k1x128Kind, 32, 128, false);
  const Held8 square(k128x128Kind, 128, 128, false);
  const Held8 mxfp8(kMxfp8Kind, 32, 128, true);
  const Held8 nvfp4(kNvfp4Kind, 32, 128, true);
  using Mode = ScaleMode;
  const struct {
    const MatmulInput *a, *b;
    std::vector<int> chips;
    Mode a_mode, b_mode;
  } rows[] = {
      {&current.input,
       &current.input,
       {89, 90, 100, 103, 120},
       Mode::kScalar,
       Mode::kScalar},
      {&current.input, &rowwise.input, {90}, Mode::kOuterVec, Mode::kOuterVec},
      {&rowwise.input, &rowwise.input, {90}, Mode::kOuterVec, Mode::kOuterVec},
      {&line.input, &square.input, {90}, Mode::kVec128, Mode::kBlock128x128},
      {&square.input, &square.input, {90}, Mode::kVec128, Mode::kBlock128x128},
      {&square.input, &current.input, {90}, Mode::kBlock128x128, Mode::kVec128},
      {&mxfp8.input,
       &mxfp8.input,
       {100, 103, 120},
       Mode::kVec32Ue8m0,
       Mode::kVec32Ue8m0},
      {&nvfp4.input,
       &nvfp4.input,
       {100, 103, 120},
       Mode::kVec16Ue4m3,
       Mode::kVec16Ue4m3},
      {&mxfp8.input, &nvfp4.input, {}, Mode::kScalar, Mode::kScalar},
      {&mxfp8.input, &current.input, {}, Mode::kScalar, Mode::kScalar},
  };
  for (const auto& row : rows) {
    for (const int chip : {80, 89, 90, 100, 103, 120}) {
      const std::optional<ScaleModes> modes =
          ChooseScaleModes(*row.a, *row.b, chip);
      const bool want = std::find(row.chips.begin(), row.chips.end(), chip) !=
                        row.chips.end();
      ASSERT_EQ(modes.has_value(), want)
          << TypeName(*row.a) << " x " << TypeName(*row.b) << " " << chip;
      if (!want) continue;
      EXPECT_EQ(modes->a, row.a_mode);
      EXPECT_EQ(modes->b, row.b_mode);
    }
  }
  float values[4] = {};
  EXPECT_TRUE(ChooseScaleModes(Plain(DType::kBF16, values, 2, 2),
                               Plain(DType::kBF16, values, 2, 2), 80));
  EXPECT_FALSE(ChooseScaleModes(Plain(DType::kBF16, values, 2, 2),
                                Plain(DType::kF16, values, 2, 2), 90));
}

// Whatever the layout, shape and part: what is not as cuBLASLt wants it is
// written out, not refused.
TEST(NativeProductTest, MicroscaledOperandsOfEveryLayoutAreNative) {
  for (const ScaledKind& kind : kMicroKinds) {
    for (const bool tiled : {false, true}) {
      const Held8 a(kind, 33, 80, tiled);
      const Held8 b(kind, 17, 80, tiled);
      EXPECT_TRUE(ChooseScaleModes(a.input, b.input, 100)) << kind.name;
      EXPECT_TRUE(ChooseScaleModes(a.input.Part(32, 0, 1, 80), b.input, 100));
    }
  }
}

TEST(NativeProductTest, RefusalsSayWhatIsTrue) {
  const ChipIdentity hopper = {"NVIDIA H200", 132, 130100};
  const ChipIdentity blackwell = {"NVIDIA B200", 148, 130100};
  const Held8 mxfp8(kMxfp8Kind, 32, 96, true);
  const Held8 nvfp4(kNvfp4Kind, 32, 96, true);
  float memory[32 * 32];
  MatmulProblem problem;
  problem.a = mxfp8.input;
  problem.b = mxfp8.input.Transposed();
  problem.out =
      TensorView::Contiguous(memory, DType::kF32, 32, 32, Device::Host());
  const auto refused = [](const auto& text) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, text);
  };
  EXPECT_THAT(
      RefuseProduct(problem, hopper, 90),
      refused(AllOf(HasSubstr("Matmul M=32 N=32 K=96: NVIDIA H200 (compute "
                              "capability 9.0) does not multiply mxfp8 E4M3 x "
                              "mxfp8 E4M3, which compute capability 10.0 and "
                              "newer does"),
                    HasSubstr("emulate: true"))));
  // A shape that cuBLASLt has nothing for: the pair is not to blame.
  EXPECT_THAT(
      RefuseProduct(problem, blackwell, 100),
      refused(AllOf(HasSubstr("Matmul M=32 N=32 K=96: cuBLASLt 130100 has no "
                              "algorithm on NVIDIA B200"),
                    HasSubstr("into float32 nor, with N and K padded"),
                    HasSubstr("emulate: true"),
                    Not(HasSubstr("does not multiply")))));
  problem.b = nvfp4.input.Transposed();
  EXPECT_THAT(RefuseProduct(problem, blackwell, 100),
              refused(HasSubstr("does not multiply mxfp8 E4M3 x nvfp4 E2M1, "
                                "which no chip does")));
}

TEST(OperandLayoutTest, DepthIsPadded) {
  EXPECT_EQ(DepthMultiple(Held8(kCurrentKind, 4, 4, false).input), 16);
  EXPECT_EQ(DepthMultiple(Held8(kMxfp8Kind, 4, 4, true).input), 32);
  EXPECT_EQ(DepthMultiple(Held8(kNvfp4Kind, 4, 4, true).input), 32);
  float values[4] = {};
  EXPECT_EQ(DepthMultiple(Plain(DType::kF32, values, 2, 2)), 1);
}

// H6: codes lie where they are if cuBLASLt takes them so.
TEST(OperandLayoutTest, CodesAreStagedWhereTheyMustBe) {
  const struct {
    ScaledKind kind;
    int64_t depth, padded;
    bool is_staged;
    int64_t ld;
    size_t bytes;  // of 32 rows
  } rows[] = {
      {kCurrentKind, 128, 128, false, 128, 0},
      {kCurrentKind, 120, 128, true, 128, 4096},
      {kMxfp8Kind, 96, 96, false, 96, 0},
      {kMxfp8Kind, 80, 96, true, 96, 3072},
      {kNvfp4Kind, 64, 64, false, 64, 0},
      {kNvfp4Kind, 48, 64, true, 64, 1024},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(row.kind.name) + " " + std::to_string(row.depth));
    const Held8 held(row.kind, 32, row.depth,
                     /*tiled=*/row.kind.type != ScaleType::kFloat);
    StagingLayout staging;
    const Placement place = Place(held.input, 32, row.padded, &staging);
    EXPECT_EQ(place.is_staged, row.is_staged);
    EXPECT_TRUE(place.depth_fastest);
    EXPECT_EQ(place.ld, row.ld);
    EXPECT_EQ(staging.bytes(), row.bytes);
  }
  // From a row on that is not 16 bytes aligned.
  const Held8 nvfp4(kNvfp4Kind, 4, 96, true);
  StagingLayout staging;
  EXPECT_TRUE(Place(nvfp4.input.Part(1, 16, 2, 64), 2, 64, &staging).is_staged);
  // The other copy of square blocks: K does not run fastest.
  const Held8 other(kMxfp8SquareKind, 64, 64, true, Held::kOtherWay);
  EXPECT_TRUE(Place(other.input, 64, 64, &staging).is_staged);
}

// H2: whichever copy there is, cuBLASLt gets K running fastest.
TEST(OperandLayoutTest, CodesAreBroughtToTN) {
  for (const Held held : {Held::kRowWise, Held::kColumnWise, Held::kOtherWay}) {
    const Held8 codes(kCurrentKind, 64, 128, false, held);
    StagingLayout staging;
    const Placement place = Place(codes.input, 64, 128, &staging);
    EXPECT_TRUE(place.depth_fastest);
    EXPECT_EQ(place.is_staged, held == Held::kOtherWay);
    EXPECT_EQ(place.ld, 128);
  }
  // Plain values may lie either way.
  std::vector<float> values(64 * 128);
  const MatmulInput plain = Plain(DType::kF32, values.data(), 128, 64);
  StagingLayout staging;
  const Placement place = Place(plain.Transposed(), 64, 128, &staging);
  EXPECT_EQ(place.depth_fastest, false);
  EXPECT_EQ(staging.bytes(), 0u);
}

TEST(OperandLayoutTest, WholeTilesAreReadInPlace) {
  const Held8 held(kMxfp8Kind, 300, 160, true);
  const auto place = [](const MatmulInput& input) {
    StagingLayout staging;
    const int64_t depth = RoundUp(input.values.cols, 32);
    const Placement codes = Place(input, input.values.rows, depth, &staging);
    return PlaceScales(input, ScaleMode::kVec32Ue8m0, codes, &staging);
  };
  EXPECT_FALSE(place(held.input).is_staged);
  EXPECT_EQ(place(held.input).offset, 0u);
  // Experts that begin at a row of tiles; there are two tiles across.
  EXPECT_FALSE(place(held.input.Part(128, 0, 172, 160)).is_staged);
  EXPECT_EQ(place(held.input.Part(128, 0, 172, 160)).offset, 1024u);
  EXPECT_EQ(place(held.input.Part(256, 0, 44, 160)).offset, 2048u);
  // Others: the scales are written out.
  EXPECT_TRUE(place(held.input.Part(32, 0, 64, 160)).is_staged);
  EXPECT_TRUE(place(held.input.Part(0, 32, 300, 128)).is_staged);
  // What follows is another expert's, whose scales may be NaN.
  EXPECT_TRUE(place(held.input.Part(0, 0, 300, 128)).is_staged);
  EXPECT_TRUE(place(Held8(kMxfp8Kind, 300, 160, false).input).is_staged);
  EXPECT_TRUE(
      place(Held8(kMxfp8SquareKind, 64, 64, true, Held::kOtherWay).input)
          .is_staged);
}

// What the tiles and the packed codes hold, wherever they come from.
TEST(OperandLayoutTest, TilesAndHalvesAreThoseOfTheView) {
  for (const ScaledKind& kind : kMicroKinds) {
    for (const bool tiled : {false, true}) {
      for (const Held way : {Held::kRowWise, Held::kOtherWay}) {
        if (way == Held::kOtherWay && kind.block_rows == 1) continue;
        SCOPED_TRACE(std::string(kind.name) + (tiled ? " tiled" : ""));
        constexpr int64_t kRows = 300, kCols = 200;
        const Held8 held(kind, kRows, kCols, tiled, way);
        constexpr int64_t kFirstRow = 32, kFirstCol = 64;
        const MatmulInput part = held.input.Part(
            kFirstRow, kFirstCol, kRows - kFirstRow, kCols - kFirstCol);
        const ScaleMode mode = kind.scaling == Scaling::kMxfp8
                                   ? ScaleMode::kVec32Ue8m0
                                   : ScaleMode::kVec16Ue4m3;
        TileScalesArguments tiles;
        tiles.grid = part.grid;
        tiles.block = part.grid.col_block();
        tiles.rows = part.values.rows;
        tiles.cols = (part.values.cols + tiles.block - 1) / tiles.block;
        tiles.bytes = ScaleModeBytes(mode, tiles.rows, part.values.cols);
        std::vector<uint8_t> bytes;
        for (int64_t i = 0; i < tiles.bytes; ++i) {
          bytes.push_back(TiledScale(tiles, i));
        }
        // A grid of the tiles alone, as cuBLASLt reads them.
        BlockScales grid = part.grid.scales;
        grid.layout = ScaleLayout::kTiled;
        grid.data = bytes.data();
        grid.rows = tiles.rows;
        grid.cols = tiles.cols;
        grid.block_rows = 1;
        grid.block_cols = tiles.block;
        for (int64_t r = 0; r < tiles.rows; ++r) {
          for (int64_t c = 0; c < part.values.cols; ++c) {
            ASSERT_EQ(ScaleInverseAt(grid, r, c),
                      held.operand.ScaleOf(kFirstRow + r, kFirstCol + c))
                << r << " " << c;
          }
        }
        // 268 rows fill three rows of tiles; what is behind them is 0.
        EXPECT_EQ(bytes[static_cast<size_t>(ScaleOffset(grid, 268, 0))], 0);
        if (kind.format != Format::kE2M1) continue;

        PackHalvesArguments pack;
        pack.source = part.values.data;
        pack.rows = part.values.rows;
        pack.cols = part.values.cols;
        pack.row_stride = part.values.row_stride;
        pack.col_stride = part.values.col_stride;
        pack.padded_cols = RoundUp(pack.cols, 32);
        for (int64_t r : {int64_t{0}, int64_t{1}, pack.rows - 1, pack.rows}) {
          for (int64_t c = 0; c < pack.padded_cols; ++c) {
            const uint8_t byte =
                PackedHalves(pack, (r * pack.padded_cols + c) / 2);
            const double code =
                Decode(Format::kE2M1,
                       static_cast<uint8_t>((byte >> (c % 2 * 4)) & 15));
            const bool inside = r < pack.rows && c < pack.cols;
            ASSERT_EQ(
                inside ? code * static_cast<double>(held.operand.ScaleOf(
                                    kFirstRow + r, kFirstCol + c))
                       : code,
                inside ? held.operand.Value(kFirstRow + r, kFirstCol + c) : 0.0)
                << r << " " << c;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace scalekeeper::internal
