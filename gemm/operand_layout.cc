#include "gemm/operand_layout.h"

#include "base/buffer.h"

namespace scalekeeper::internal {
namespace {

constexpr int64_t kAlignment = 16;  // bytes
constexpr int64_t kBlock = 128;
// 128 x 128 scales: columns of the grid are padded to this.
constexpr int64_t kBlockColumns = 4;
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileCols = 4;

int64_t Blocks(int64_t n, int64_t of) { return (n + of - 1) / of; }

bool StartsAtOrigin(const GridView& grid) {
  return !grid.is_transposed && grid.first_row == 0 && grid.first_col == 0 &&
         grid.scales.layout == ScaleLayout::kStrided &&
         IsAligned(grid.scales.data);
}

// Tiles that cuBLASLt can read where they lie: from a whole row of tiles on,
// and to the last column, behind which there is padding.
bool AreWholeTiles(const MatmulInput& operand) {
  const GridView& grid = operand.grid;
  return grid.scales.layout == ScaleLayout::kTiled && !grid.is_transposed &&
         grid.first_row % kTileRows == 0 && grid.first_col == 0 &&
         Blocks(operand.values.cols, grid.scales.block_cols) ==
             grid.scales.cols &&
         IsAligned(grid.scales.data);
}

}  // namespace

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0;
}

bool IsTaken(int64_t length, int64_t stride, int64_t count, int64_t distance,
             int64_t element_bits, int64_t* ld) {
  const int64_t multiple = 8 * kAlignment / element_bits;
  *ld = count <= 1 ? RoundUp(length, multiple) : distance;
  return (stride == 1 || length <= 1) && *ld >= length && *ld % multiple == 0;
}

size_t StagingLayout::Add(int64_t bytes) {
  const size_t offset = bytes_;
  bytes_ += static_cast<size_t>(
      RoundUp(bytes, static_cast<int64_t>(Allocator::kAlignment)));
  return offset;
}

int64_t ElementBits(const MatmulInput& input) {
  if (input.is_codes() && input.format == Format::kE2M1) return 4;
  return 8 * static_cast<int64_t>(SizeOf(input.values.dtype));
}

int64_t DepthMultiple(const MatmulInput& input) {
  if (!input.is_codes()) return 1;
  return input.scaling == Scaling::kMxfp8 || input.scaling == Scaling::kNvfp4
             ? 32
             : 16;
}

Placement Place(const MatmulInput& operand, int64_t outer, int64_t depth,
                StagingLayout* staging) {
  const ConstTensorView& v = operand.values;
  const int64_t bits = ElementBits(operand);
  Placement place;
  place.outer = outer;
  place.depth = depth;
  if (outer == v.rows && depth == v.cols && IsAligned(v.data)) {
    place.depth_fastest = true;
    if (IsTaken(v.cols, v.col_stride, v.rows, v.row_stride, bits, &place.ld)) {
      return place;
    }
    place.depth_fastest = false;
    if (!operand.is_codes() &&
        IsTaken(v.rows, v.row_stride, v.cols, v.col_stride, bits, &place.ld)) {
      return place;
    }
  }
  place.is_staged = true;
  place.depth_fastest = true;
  place.ld = RoundUp(depth, 8 * kAlignment / bits);
  place.offset = staging->Add(outer * place.ld * bits / 8);
  return place;
}

PlacedScales PlaceScales(const MatmulInput& operand, ScaleMode mode,
                         const Placement& placement, StagingLayout* staging) {
  PlacedScales place;
  place.mode = mode;
  if (!operand.is_codes()) return place;
  const GridView& grid = operand.grid;
  const BlockScales& scales = grid.scales;
  const OperandKind kind = KindOf(operand);
  const bool is_whole =
      StartsAtOrigin(grid) && placement.outer == operand.values.rows;
  switch (mode) {
    case ScaleMode::kScalar:
      return place;
    case ScaleMode::kOuterVec:
      place.is_staged =
          !is_whole || kind != OperandKind::kRowwise || scales.row_stride != 1;
      break;
    case ScaleMode::kVec128:
      place.is_staged =
          !is_whole || kind != OperandKind::k1x128 || scales.row_stride != 1 ||
          (scales.cols > 1 && scales.col_stride != placement.outer);
      break;
    case ScaleMode::kBlock128x128:
      place.is_staged =
          !StartsAtOrigin(grid) || scales.col_stride != 1 ||
          (scales.rows > 1 &&
           scales.row_stride != RoundUp(scales.cols, kBlockColumns)) ||
          scales.cols != Blocks(placement.depth, kBlock);
      break;
    case ScaleMode::kVec16Ue4m3:
    case ScaleMode::kVec32Ue8m0:
      place.is_staged = !AreWholeTiles(operand);
      if (!place.is_staged) {
        place.offset =
            static_cast<size_t>(ScaleOffset(scales, grid.first_row, /*col=*/0));
      }
      break;
  }
  if (place.is_staged) {
    place.offset =
        staging->Add(ScaleModeBytes(mode, placement.outer, placement.depth));
  }
  return place;
}

int64_t ScaleModeBytes(ScaleMode mode, int64_t outer, int64_t depth) {
  const auto tiles = [&](int64_t block) {
    return Blocks(outer, kTileRows) * Blocks(Blocks(depth, block), kTileCols) *
           kTileRows * kTileCols;
  };
  switch (mode) {
    case ScaleMode::kScalar:
      return 4;
    case ScaleMode::kOuterVec:
      return 4 * outer;
    case ScaleMode::kVec128:
      return 4 * outer * Blocks(depth, kBlock);
    case ScaleMode::kBlock128x128:
      return 4 * Blocks(outer, kBlock) *
             RoundUp(Blocks(depth, kBlock), kBlockColumns);
    case ScaleMode::kVec32Ue8m0:
      return tiles(32);
    case ScaleMode::kVec16Ue4m3:
      break;
  }
  return tiles(16);
}

}  // namespace scalekeeper::internal
