// Which grid of scales a policy gives the codes of one use, and where a device
// wants its entries (numerics.md 8; quantizer/block_scales.h).
//
// On the host every grid is compact and row-major, as files hold it. On a GPU
// 1 x 128 scales run along the rows, 128 x 128 scales have their rows padded to
// a multiple of 4, and from compute capability 10.0 on byte scales lie in tiles
// of 128 x 4: what cuBLASLt reads, so that no Matmul has to turn them.
//
// Example:
//   BlockScales grid = ScaleGrid(policy, rows, cols,
//                                ScalePlacement::kCompact);
//   Buffer::Allocate(allocator, ScaleBytes(grid, rows));
#ifndef SCALEKEEPER_QUANTIZER_SCALE_GRID_H_
#define SCALEKEEPER_QUANTIZER_SCALE_GRID_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/device.h"
#include "quantizer/block_scales.h"
#include "recipe/policy.h"

namespace scalekeeper {

enum class ScalePlacement { kCompact, kGpu, kGpuTiled };

// Of `device`; its error where that cannot be asked.
absl::StatusOr<ScalePlacement> ScalePlacementOf(Device device);

// The grid over code_rows x code_cols codes (C x R of a column-wise copy),
// without memory. Per-tensor scalings have one entry; kHighPrecision has none.
BlockScales ScaleGrid(const Policy& policy, int64_t code_rows,
                      int64_t code_cols, ScalePlacement placement);

// Bytes from scales.data to the end of the last row, column or tile.
size_t ScaleBytes(const BlockScales& scales, int64_t code_rows);

// Whether its blocks are exactly those of so many codes.
bool CoversCodes(const BlockScales& scales, int64_t code_rows,
                 int64_t code_cols);

// "float32", "E8M0", "E4M3".
absl::string_view Name(ScaleType type);

// The scale_inv type of a scaling, which is not kHighPrecision.
ScaleType ScaleTypeOf(Scaling scaling);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_SCALE_GRID_H_
