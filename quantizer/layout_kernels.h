// Kernels that move codes and scales without reading them: transposes, and the
// interleaving of what several ranks sent.
//
// As quantizer/kernels.h in all that is said there: no state, no allocation,
// queued on `stream`, validated by the caller, Unimplemented for a device that
// this build has no kernels for. Inputs and outputs do not overlap.
//
// Example (host):
//   SK_RETURN_IF_ERROR(kernels::TransposeCodes(codes, rows, cols, /*bits=*/8,
//                                              turned, device, stream));
#ifndef SCALEKEEPER_QUANTIZER_LAYOUT_KERNELS_H_
#define SCALEKEEPER_QUANTIZER_LAYOUT_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/device.h"
#include "quantizer/block_scales.h"

namespace scalekeeper::kernels {

// out (C x R) = the transpose of `codes` (R x C), elements of 4, 8, 16 or 32
// bits, rows without gaps; 4 bits: two to a byte, the first in the low nibble,
// the last nibble of an odd row 0.
absl::Status TransposeCodes(const void* codes, int64_t rows, int64_t cols,
                            int bits, void* out, Device device, Stream stream);

// The scales of square blocks, for the transpose of their codes, which has
// `to_code_rows` rows. Padding of the grid is left alone.
absl::Status TransposeScales(const BlockScales& from, const BlockScales& to,
                             int64_t to_code_rows, Device device,
                             Stream stream);

// What `ranks` ranks sent: blocks of lines x length bytes, one behind the
// other, and a scale_inv each.
struct GatheredBlocks {
  const uint8_t* codes = nullptr;
  const float* scale_inv = nullptr;
  int ranks = 0;
  int64_t lines = 0;   // C
  int64_t length = 0;  // bytes of a line, R of one rank
};

// out[line][rank * length + i] = codes[rank][line][i]; *scale_inv = that of the
// ranks, or NaN where they differ.
absl::Status Interleave(const GatheredBlocks& blocks, uint8_t* out,
                        float* scale_inv, Device device, Stream stream);

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_LAYOUT_KERNELS_H_
