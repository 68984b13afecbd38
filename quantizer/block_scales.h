// The scales of codes that have more than one: a grid over the codes' own rows
// and columns, wherever and in whatever type it is kept.
//
// A plain struct over the caller's memory, for kernels on every backend. Rows
// and columns are those of the codes: C x R for a column-wise copy. Block (i,
// j) covers codes [i * block_rows, (i + 1) * block_rows) x [j * block_cols,
// ...); tail blocks are smaller.
//
//   scaling        type     block                    grid, row-wise
//   per tensor     kFloat   the whole tensor         1 x 1
//   rowwise        kFloat   1 x cols                 R x 1
//   block          kFloat   1 x 128, 128 x 128       R x C/128, R/128 x C/128
//   mxfp8          kE8M0    1 x 32, 32 x 32          R x C/32, ...
//   nvfp4          kE4M3    1 x 16, 16 x 16          R x C/16, ...; times
//                                                    *tensor_scale_inv
//
// Layouts: kStrided, element (i, j) at i * row_stride + j * col_stride. GPUs
// want 1 x 128 scales with rows running fastest and 128 x 128 scales with their
// columns padded to 4; both are strides. kTiled, for the block formats of
// compute capability 10.0: bytes in tiles of 128 x 4, whole tiles, row-major,
// one entry per row of codes even where a block covers several rows (NVIDIA,
// cuBLAS documentation, "1D block scaling factors layout").
//
// Example:
//   float x = Decode(format, code) * ScaleInverseAt(scales, row, col);
#ifndef SCALEKEEPER_QUANTIZER_BLOCK_SCALES_H_
#define SCALEKEEPER_QUANTIZER_BLOCK_SCALES_H_

#include <cstdint>

#include "numerics/e8m0.h"
#include "numerics/format.h"
#include "numerics/host_device.h"
#include "numerics/nvfp4.h"

namespace scalekeeper {

enum class ScaleType { kFloat, kE8M0, kE4M3 };
enum class ScaleLayout { kStrided, kTiled };

struct BlockScales {
  ScaleType type = ScaleType::kFloat;
  ScaleLayout layout = ScaleLayout::kStrided;
  void* data = nullptr;  // scale_inv: float32, or one byte each
  int64_t rows = 0;      // of the grid of blocks, in every layout
  int64_t cols = 0;
  int64_t row_stride = 0;  // kStrided
  int64_t col_stride = 1;
  int64_t block_rows = 1;  // codes
  int64_t block_cols = 1;
  float* tensor_scale_inv = nullptr;  // kE4M3: 1 / S_enc
};

// Bytes of a row of `cols` codes: E2M1 packs two in each.
SK_HOST_DEVICE inline int64_t CodeRowBytes(Format format, int64_t cols) {
  return format == Format::kE2M1 ? (cols + 1) / 2 : cols;
}

// Where the scale of grid entry (row, col) is, in entries. Of kTiled, `row`
// counts rows of codes.
SK_HOST_DEVICE inline int64_t ScaleOffset(const BlockScales& scales,
                                          int64_t row, int64_t col) {
  if (scales.layout == ScaleLayout::kStrided) {
    return row * scales.row_stride + col * scales.col_stride;
  }
  const int64_t tiles = (scales.cols + 3) / 4;
  const int64_t tile = (row / 128) * tiles + col / 4;
  return tile * 512 + (row % 32) * 16 + (row % 128) / 32 * 4 + col % 4;
}

// The same for the block of the code at (row, col).
SK_HOST_DEVICE inline int64_t ScaleOffsetOfCode(const BlockScales& scales,
                                                int64_t row, int64_t col) {
  const int64_t grid_row =
      scales.layout == ScaleLayout::kTiled ? row : row / scales.block_rows;
  return ScaleOffset(scales, grid_row, col / scales.block_cols);
}

// What the code at (row, col) is multiplied with to dequantize (numerics.md 4
// to 6).
SK_HOST_DEVICE inline float ScaleInverseAt(const BlockScales& scales,
                                           int64_t row, int64_t col) {
  const int64_t at = ScaleOffsetOfCode(scales, row, col);
  switch (scales.type) {
    case ScaleType::kFloat:
      return static_cast<const float*>(scales.data)[at];
    case ScaleType::kE8M0:
      return DecodeE8M0(static_cast<const uint8_t*>(scales.data)[at]);
    case ScaleType::kE4M3:
      return Nvfp4ScaleInverse(static_cast<const uint8_t*>(scales.data)[at],
                               *scales.tensor_scale_inv);
  }
  return 0;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_BLOCK_SCALES_H_
