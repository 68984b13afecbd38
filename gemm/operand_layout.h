// Where the elements and scales of operands lie for cublasLtMatmul, and what
// must be laid out anew in staging memory; needs neither a GPU nor CUDA.
//
// cuBLASLt takes codes only with K running fastest in both operands (TN),
// 16-byte aligned pointers and leading dimensions, and scales in a layout of
// its own:
//   codes without a copy in which K runs fastest   transposed
//   codes with K not a multiple of 16 (mxfp8 and   padded with zeros
//   nvfp4: 32)
//   a pointer or leading dimension that is not a   copied
//   multiple of 16 bytes, or no unit stride
//   scales of another layout or of a finer mode    written out
//   128x4 tiles from a row on that is no multiple  written out
//   of 128, or of a part of the columns
// Zeros add nothing to a sum, so none of this changes a result. (Where whole
// tiles are read in place, the scales of padded codes are those of zeros, or
// the padding of the quantize kernel's tiles, which is 0.)
#ifndef SCALEKEEPER_GEMM_OPERAND_LAYOUT_H_
#define SCALEKEEPER_GEMM_OPERAND_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "gemm/matmul_input.h"
#include "gemm/native_product.h"
#include "numerics/host_device.h"

namespace scalekeeper::internal {

int64_t RoundUp(int64_t value, int64_t multiple);

// To what cuBLASLt demands of every pointer.
bool IsAligned(const void* pointer);

// True when a column of `length` elements, `stride` apart, `count` of them
// `distance` apart, is what cuBLASLt takes; sets *ld.
bool IsTaken(int64_t length, int64_t stride, int64_t count, int64_t distance,
             int64_t element_bits, int64_t* ld);

// Hands out parts of the staging memory.
class StagingLayout {
 public:
  size_t Add(int64_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// 4 for E2M1 codes.
int64_t ElementBits(const MatmulInput& input);

// What K is padded to a multiple of.
int64_t DepthMultiple(const MatmulInput& input);

// Where an operand, an outer x K matrix, lies for the call.
struct Placement {
  bool is_staged = false;
  size_t offset = 0;             // in the staging memory
  bool depth_fastest = true;     // K is contiguous; else the other dimension
  int64_t ld = 0;                // elements
  int64_t outer = 0, depth = 0;  // padded
};
Placement Place(const MatmulInput& operand, int64_t outer, int64_t depth,
                StagingLayout* staging);

// And its scales, for an operand placed so.
struct PlacedScales {
  ScaleMode mode = ScaleMode::kScalar;
  bool is_staged = false;
  size_t offset = 0;  // in the staging memory, or of the operand's own scales
};
PlacedScales PlaceScales(const MatmulInput& operand, ScaleMode mode,
                         const Placement& placement, StagingLayout* staging);

// Bytes of the scales of an outer x depth operand.
int64_t ScaleModeBytes(ScaleMode mode, int64_t outer, int64_t depth);

// Scales of a view in whole 128x4 tiles of its own: for byte `i` of them, the
// scale of the element that it is for, and 0 behind rows and columns.
struct TileScalesArguments {
  GridView grid;  // one byte each
  uint8_t* destination = nullptr;
  int64_t rows = 0;   // of the view
  int64_t cols = 0;   // blocks of the view
  int64_t block = 1;  // codes along the view's columns
  int64_t bytes = 0;  // of all tiles
};
SK_HOST_DEVICE inline uint8_t TiledScale(const TileScalesArguments& p,
                                         int64_t i) {
  const int64_t tiles_across = (p.cols + 3) / 4;
  const int64_t tile = i / 512;
  const int64_t within = i % 512;
  const int64_t row =
      tile / tiles_across * 128 + within % 16 / 4 * 32 + within / 16;
  const int64_t col = tile % tiles_across * 4 + within % 4;
  if (row >= p.rows || col >= p.cols) return 0;
  const GridView& g = p.grid;
  const int64_t code = col * p.block;
  return static_cast<const uint8_t*>(g.scales.data)[ScaleOffsetOfCode(
      g.scales, g.first_row + (g.is_transposed ? code : row),
      g.first_col + (g.is_transposed ? row : code))];
}

// E2M1 codes of any strides (half bytes) into row-major bytes of two.
struct PackHalvesArguments {
  const void* source = nullptr;
  uint8_t* destination = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0, col_stride = 1;
  int64_t padded_rows = 0, padded_cols = 0;  // padded_cols: a multiple of 32
};
// Byte `i` of the destination; zeros behind rows and columns.
SK_HOST_DEVICE inline uint8_t PackedHalves(const PackHalvesArguments& p,
                                           int64_t i) {
  const int64_t bytes_per_row = p.padded_cols / 2;
  const int64_t row = i / bytes_per_row;
  const int64_t col = i % bytes_per_row * 2;
  uint32_t byte = 0;
  for (int64_t half = 0; half < 2; ++half) {
    if (row >= p.rows || col + half >= p.cols) continue;
    const uint32_t code =
        CodeAt(p.source, Format::kE2M1,
               row * p.row_stride + (col + half) * p.col_stride);
    byte |= code << (4 * half);
  }
  return static_cast<uint8_t>(byte);
}

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_OPERAND_LAYOUT_H_
