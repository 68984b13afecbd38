// The kernels of scalings with more than one scale: rowwise, FP32 blocks,
// MXFP8, NVFP4. Functions over the caller's buffers.
//
// As quantizer/kernels.h in all that is said there: no state, no allocation,
// queued on `stream`, validated by the caller, Unimplemented for a device that
// this build has no kernels for. The same bits on every backend.
//
// Codes of one byte, or E2M1 codes two to a byte, the first in the low nibble;
// rows without gaps: a row of an odd number of E2M1 codes ends with a nibble of
// 0. A column-wise copy is C x R and quantized anew from x, except where blocks
// are square: then codes and scales are the exact transpose of those that the
// row-wise use has or would have.
//
// Example (host): 1 x 128 blocks.
//   kernels::BlockCastSpec spec;                  // E4M3, kFloat
//   kernels::BlockCastOutput out;
//   out.row_wise.codes = codes;
//   out.row_wise.scales = grid;                   // quantizer/block_scales.h
//   SK_RETURN_IF_ERROR(kernels::BlockCast(x, spec, out, {}, stream));
#ifndef SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_H_
#define SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/device.h"
#include "base/tensor_view.h"
#include "numerics/format.h"
#include "numerics/random.h"
#include "numerics/scale.h"
#include "quantizer/block_scales.h"
#include "quantizer/kernels.h"

namespace scalekeeper::kernels {

// How a block's scale and codes are made; the scale's type is that of the
// output's grid.
struct BlockCastSpec {
  Format format = Format::kE4M3;
  // kFloat. kE8M0 takes the maximum of `format`.
  CurrentScaleOptions current;
  bool e8m0_floor = false;  // kE8M0: the OCP floor rule, else round up
  // kE4M3 (numerics/nvfp4.h). The candidates of four_over_six are compared by
  // their codes to nearest, block element by block element in row-major order.
  // Stochastic rounding: the draw of the code at (row, col) of a use is that of
  // index row * cols + col; a transpose takes the row-wise use's codes.
  bool four_over_six = false;
  bool stochastic_rounding = false;
  RandomKey random_key;           // stochastic_rounding
  const int64_t* step = nullptr;  // device word; stochastic_rounding
};

// One use; left out where `codes` is null (of a tensor without elements, where
// there are none: where line_amax and scales.tensor_scale_inv are null).
struct BlockUse {
  uint8_t* codes = nullptr;
  BlockScales scales;
  // kE4M3: bits of the amax that makes S_enc, a device word that TensorAmaxes
  // (or a reduction over ranks) has set before. BlockCast writes 1 / S_enc to
  // *scales.tensor_scale_inv. A transpose takes the row-wise use's, if there is
  // one.
  const uint32_t* tensor_amax = nullptr;
  // kFloat with blocks of a whole row: bits of the amax of each row of codes,
  // device words that LineAmaxes (or a reduction) has set before.
  const uint32_t* line_amax = nullptr;
  // The Hadamard transform of numerics/hadamard.h along each row of codes,
  // whose length is a multiple of 16; with blocks of 1 x 16.
  bool hadamard = false;
};

struct BlockCastOutput {
  BlockUse row_wise;
  BlockUse column_wise;
  uint32_t* amax = nullptr;  // raised to max |x|, without the transform
  // Of the row-wise use, or of the column-wise one (there x is what the codes
  // are made from: after the transform) where only that exists.
  CastCounters* counters = nullptr;
};

// code = encode(x * scale of its block), and the blocks' scales; of kTiled one
// entry per row of codes, padding is left alone. Of a tensor without elements
// it writes what does not depend on them: the scales of whole rows and 1 /
// S_enc. InvalidArgument for a Hadamard transform with other blocks than 1 x
// 16.
absl::Status BlockCast(const ConstTensorView& x, const BlockCastSpec& spec,
                       const BlockCastOutput& out, const RunIf& run,
                       Stream stream);

// LineAmaxes of the rows, then BlockCast by them, in one pass over x where the
// backend has one. `out`: a row-wise use alone, of blocks of a whole row;
// line_amax is not read.
absl::Status RowwiseCast(const ConstTensorView& x, const BlockCastSpec& spec,
                         const BlockCastOutput& out, uint32_t* row_amax,
                         const RunIf& run, Stream stream);

// Where TensorAmaxes leaves what it finds; null pointers are left out.
struct TensorAmaxWords {
  uint32_t* row_wise = nullptr;
  uint32_t* column_wise = nullptr;
  // With `hadamard` and column_wise: raised to infinity where x' has an
  // infinity or NaN (the transform may make one of large finite values). Not
  // set before.
  uint32_t* non_finite = nullptr;
};

// row_wise = bits of max |x|; column_wise = bits of max |x'|, where x' is x
// after the Hadamard transform along its columns (rounded to x's dtype) if
// `hadamard`, else x. Set, not raised; undefined where `run` says no.
absl::Status TensorAmaxes(const ConstTensorView& x, bool hadamard,
                          const TensorAmaxWords& words, const RunIf& run,
                          Stream stream);

// row_amax[r] = bits of the amax of row r, col_amax[c] = of column c. Null
// pointers are left out. Undefined where `run` says no.
absl::Status LineAmaxes(const ConstTensorView& x, uint32_t* row_amax,
                        uint32_t* col_amax, const RunIf& run, Stream stream);

// out = decode(code) * scale_inv of its block: a float32 product, then (where
// the codes were made so) the inverse Hadamard transform in float32, rounded to
// out's dtype. `out` has the shape of the codes: give its transpose for a
// column-wise copy.
absl::Status BlockDecode(const uint8_t* codes, Format format,
                         const BlockScales& scales, bool hadamard,
                         const TensorView& out, Stream stream);

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_H_
