#include "quantizer/scale_grid.h"

#include <algorithm>

#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

// The first chips whose tensor cores read block scales.
constexpr int kTiledComputeCapability = 100;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Block {
  int64_t rows;
  int64_t cols;
};

Block BlockOf(const Policy& policy, int64_t code_rows, int64_t code_cols) {
  switch (policy.scaling) {
    case Scaling::kRowwise:
      return {1, std::max<int64_t>(code_cols, 1)};
    case Scaling::kBlock:
      return {policy.block.block_shape == BlockShape::k128x128 ? 128 : 1, 128};
    case Scaling::kMxfp8:
      return {policy.mxfp8.two_dimensional ? 32 : 1, 32};
    case Scaling::kNvfp4:
      return {policy.nvfp4.two_dimensional ? kNvfp4Block : 1, kNvfp4Block};
    case Scaling::kHighPrecision:
    case Scaling::kDelayed:
    case Scaling::kCurrent:
    case Scaling::kCustom:
      break;
  }
  return {std::max<int64_t>(code_rows, 1), std::max<int64_t>(code_cols, 1)};
}

bool HasOneScale(Scaling scaling) {
  return scaling == Scaling::kDelayed || scaling == Scaling::kCurrent ||
         scaling == Scaling::kCustom;
}

}  // namespace

absl::StatusOr<ScalePlacement> ScalePlacementOf(Device device) {
  if (device.kind == DeviceKind::kHost) return ScalePlacement::kCompact;
  SK_ASSIGN_OR_RETURN(const int capability, ComputeCapability(device));
  return capability >= kTiledComputeCapability ? ScalePlacement::kGpuTiled
                                               : ScalePlacement::kGpu;
}

ScaleType ScaleTypeOf(Scaling scaling) {
  if (scaling == Scaling::kMxfp8) return ScaleType::kE8M0;
  if (scaling == Scaling::kNvfp4) return ScaleType::kE4M3;
  return ScaleType::kFloat;
}

BlockScales ScaleGrid(const Policy& policy, int64_t code_rows,
                      int64_t code_cols, ScalePlacement placement) {
  BlockScales grid;
  if (policy.scaling == Scaling::kHighPrecision) return grid;
  const Block block = BlockOf(policy, code_rows, code_cols);
  grid.type = ScaleTypeOf(policy.scaling);
  grid.block_rows = block.rows;
  grid.block_cols = block.cols;
  const bool one_column = policy.scaling == Scaling::kRowwise;
  grid.rows = HasOneScale(policy.scaling) ? 1 : CeilDiv(code_rows, block.rows);
  grid.cols = HasOneScale(policy.scaling) || one_column
                  ? 1
                  : CeilDiv(code_cols, block.cols);
  grid.row_stride = grid.cols;
  grid.col_stride = 1;
  if (placement == ScalePlacement::kCompact) return grid;
  if (policy.scaling == Scaling::kBlock) {
    if (block.rows == 1) {
      grid.row_stride = 1;
      grid.col_stride = grid.rows;
    } else {
      grid.row_stride = CeilDiv(grid.cols, 4) * 4;
    }
  } else if (grid.type != ScaleType::kFloat &&
             placement == ScalePlacement::kGpuTiled) {
    grid.layout = ScaleLayout::kTiled;
  }
  return grid;
}

bool CoversCodes(const BlockScales& scales, int64_t code_rows,
                 int64_t code_cols) {
  if (scales.block_rows < 1 || scales.block_cols < 1) return false;
  // One scale, or one a row, covers a tensor without elements, too.
  const auto covers = [](int64_t blocks, int64_t block, int64_t codes) {
    return blocks == CeilDiv(codes, block) ||
           (blocks == 1 && codes == 0 && block == 1);
  };
  return covers(scales.rows, scales.block_rows, code_rows) &&
         covers(scales.cols, scales.block_cols, code_cols);
}

absl::string_view Name(ScaleType type) {
  switch (type) {
    case ScaleType::kFloat:
      return "float32";
    case ScaleType::kE8M0:
      return "E8M0";
    case ScaleType::kE4M3:
      return "E4M3";
  }
  return "";
}

size_t ScaleBytes(const BlockScales& scales, int64_t code_rows) {
  if (scales.rows == 0 || scales.cols == 0) return 0;
  if (scales.layout == ScaleLayout::kTiled) {
    return static_cast<size_t>(CeilDiv(code_rows, 128) *
                               CeilDiv(scales.cols, 4) * 512);
  }
  const int64_t entries = std::max(scales.rows * scales.row_stride,
                                   scales.cols * scales.col_stride);
  return static_cast<size_t>(entries) *
         (scales.type == ScaleType::kFloat ? sizeof(float) : 1);
}

}  // namespace scalekeeper
