// Where an element goes: the index arithmetic that the host's and the CUDA
// layout kernels share. Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_LAYOUT_MOVES_H_
#define SCALEKEEPER_QUANTIZER_LAYOUT_MOVES_H_

#include <cstdint>

#include "numerics/bits.h"
#include "numerics/host_device.h"
#include "quantizer/block_scales.h"
#include "quantizer/layout_kernels.h"

namespace scalekeeper::kernels {

// The 4-bit code at (row, col), rows of `row_bytes`.
SK_HOST_DEVICE inline uint8_t Nibble(const uint8_t* codes, int64_t row_bytes,
                                     int64_t row, int64_t col) {
  const uint8_t pair = codes[row * row_bytes + col / 2];
  return col % 2 == 0 ? pair & 0xF : pair >> 4;
}

// Byte `pair` of row `row` of the transpose of rows x cols 4-bit codes.
SK_HOST_DEVICE inline uint8_t TransposedPair(const uint8_t* codes, int64_t rows,
                                             int64_t cols, int64_t row,
                                             int64_t pair) {
  const int64_t row_bytes = (cols + 1) / 2;
  const uint8_t low = Nibble(codes, row_bytes, 2 * pair, row);
  const uint8_t high = 2 * pair + 1 < rows
                           ? Nibble(codes, row_bytes, 2 * pair + 1, row)
                           : uint8_t{0};
  return static_cast<uint8_t>(low | high << 4);
}

// Rows of a grid's stored entries: tiles hold one for every row of codes.
SK_HOST_DEVICE inline int64_t StoredRows(const BlockScales& scales,
                                         int64_t code_rows) {
  return scales.layout == ScaleLayout::kTiled ? code_rows : scales.rows;
}

// Stored entry (row, col) of `to`, whose blocks are square, from its place in
// the transpose.
SK_HOST_DEVICE inline void MoveScale(const BlockScales& from,
                                     const BlockScales& to, int64_t row,
                                     int64_t col) {
  const int64_t code_row =
      to.layout == ScaleLayout::kTiled ? row : row * to.block_rows;
  const int64_t source = ScaleOffsetOfCode(from, col * to.block_cols, code_row);
  const int64_t target = ScaleOffset(to, row, col);
  if (to.type == ScaleType::kFloat) {
    static_cast<float*>(to.data)[target] =
        static_cast<const float*>(from.data)[source];
  } else {
    static_cast<uint8_t*>(to.data)[target] =
        static_cast<const uint8_t*>(from.data)[source];
  }
}

// That of all ranks, or NaN.
SK_HOST_DEVICE inline float CommonScaleInverse(const GatheredBlocks& blocks) {
  for (int rank = 1; rank < blocks.ranks; ++rank) {
    if (BitsFromFloat(blocks.scale_inv[rank]) !=
        BitsFromFloat(blocks.scale_inv[0])) {
      return FloatFromBits(0x7FC00000u);
    }
  }
  return blocks.scale_inv[0];
}

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_LAYOUT_MOVES_H_
