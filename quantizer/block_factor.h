// How one block of a grid is quantized, and what its grid keeps of it: what the
// host's and the GPUs' block kernels share. The formulas are numerics/.
// Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_BLOCK_FACTOR_H_
#define SCALEKEEPER_QUANTIZER_BLOCK_FACTOR_H_

#include <cstdint>

#include "numerics/e8m0.h"
#include "numerics/host_device.h"
#include "numerics/nvfp4.h"
#include "numerics/scale.h"
#include "quantizer/block_kernels.h"
#include "quantizer/block_scales.h"

namespace scalekeeper::kernels {

// The grid stores `inverse` where scales are float32, else `byte`.
struct BlockFactor {
  float scale = 1;
  float inverse = 1;
  uint8_t byte = 0;
};

// NVFP4's scale of the whole use: S_enc and 1 / S_enc.
struct TensorFactor {
  float scale = 1;
  float scale_inv = 1;
};

SK_HOST_DEVICE inline TensorFactor TensorFactorOf(const BlockUse& use,
                                                  const BlockCastSpec& spec) {
  TensorFactor tensor;
  if (use.scales.type == ScaleType::kE4M3) {
    tensor.scale = Nvfp4TensorScale(*use.tensor_amax, spec.four_over_six);
    tensor.scale_inv = ScaleInverse(tensor.scale);
  }
  return tensor;
}

SK_HOST_DEVICE inline BlockFactor FloatFactor(uint32_t amax,
                                              const BlockCastSpec& spec) {
  BlockFactor f;
  f.scale = CurrentScaleFromAmax(amax, spec.current);
  f.inverse = ScaleInverse(f.scale);
  return f;
}

SK_HOST_DEVICE inline BlockFactor E8M0Factor(uint32_t amax,
                                             const BlockCastSpec& spec) {
  BlockFactor f;
  f.byte = spec.e8m0_floor ? E8M0FloorFromAmax(amax, spec.format)
                           : E8M0RoundUpFromAmax(amax, spec.format);
  f.scale = E8M0Scale(f.byte);
  f.inverse = DecodeE8M0(f.byte);
  return f;
}

SK_HOST_DEVICE inline BlockFactor Nvfp4Factor(uint8_t block_scale,
                                              float tensor_scale_inv) {
  BlockFactor f;
  f.byte = block_scale;
  f.scale = Nvfp4Scale(block_scale, tensor_scale_inv);
  f.inverse = Nvfp4ScaleInverse(block_scale, tensor_scale_inv);
  return f;
}

// Without regard to four_over_six.
SK_HOST_DEVICE inline BlockFactor FactorFromAmax(ScaleType type, uint32_t amax,
                                                 const TensorFactor& tensor,
                                                 const BlockCastSpec& spec) {
  switch (type) {
    case ScaleType::kFloat:
      return FloatFactor(amax, spec);
    case ScaleType::kE8M0:
      return E8M0Factor(amax, spec);
    case ScaleType::kE4M3:
      return Nvfp4Factor(Nvfp4BlockScale(amax, tensor.scale), tensor.scale_inv);
  }
  return {};
}

// The better of `first` and four-over-six's other candidate;
// `sum_of_errors(factor)` adds Nvfp4Error over the block in its order.
template <typename SumOfErrors>
SK_HOST_DEVICE inline BlockFactor BetterOfFourAndSix(
    const BlockFactor& first, const TensorFactor& tensor,
    const SumOfErrors& sum_of_errors) {
  const BlockFactor wider =
      Nvfp4Factor(Nvfp4WiderBlockScale(first.byte), tensor.scale_inv);
  return sum_of_errors(wider) < sum_of_errors(first) ? wider : first;
}

// One entry; `row` as ScaleOffset wants it.
SK_HOST_DEVICE inline void PutScale(const BlockScales& scales, int64_t row,
                                    int64_t grid_col, const BlockFactor& f) {
  const int64_t at = ScaleOffset(scales, row, grid_col);
  if (scales.type == ScaleType::kFloat) {
    static_cast<float*>(scales.data)[at] = f.inverse;
  } else {
    static_cast<uint8_t*>(scales.data)[at] = f.byte;
  }
}

// All entries of a block.
SK_HOST_DEVICE inline void WriteScale(const BlockScales& scales,
                                      int64_t grid_row, int64_t grid_col,
                                      int64_t code_rows, const BlockFactor& f) {
  if (scales.layout == ScaleLayout::kStrided) {
    PutScale(scales, grid_row, grid_col, f);
    return;
  }
  const int64_t first = grid_row * scales.block_rows;
  const int64_t end = first + scales.block_rows;
  const int64_t last = end < code_rows ? end : code_rows;
  for (int64_t row = first; row < last; ++row) {
    PutScale(scales, row, grid_col, f);
  }
}

// A use of a tensor without elements has no codes, and no scales but those of
// whole rows and of the tensor.
inline bool EmptyUseHasScales(const BlockUse& use, int64_t code_rows) {
  return (use.scales.type == ScaleType::kE4M3 &&
          use.scales.tensor_scale_inv != nullptr) ||
         (use.line_amax != nullptr && code_rows > 0);
}

// Writes them: those of rows `first`, `first` + `step`, ...
SK_HOST_DEVICE inline void ScaleEmptyUse(const BlockUse& use,
                                         const BlockCastSpec& spec,
                                         int64_t code_rows, int64_t first,
                                         int64_t step) {
  if (use.scales.type == ScaleType::kE4M3 && first == 0) {
    *use.scales.tensor_scale_inv = TensorFactorOf(use, spec).scale_inv;
  }
  if (use.line_amax == nullptr) return;
  for (int64_t row = first; row < code_rows; row += step) {
    WriteScale(use.scales, row, 0, code_rows,
               FloatFactor(use.line_amax[row], spec));
  }
}

// Whether a column-wise use is the transpose of the row-wise one.
inline bool IsTransposed(const BlockUse& column_wise) {
  const BlockScales& scales = column_wise.scales;
  return scales.block_rows > 1 && scales.block_rows == scales.block_cols;
}

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_BLOCK_FACTOR_H_
