// A quantized tensor: codes and the scales that they were made with.
//
// It owns its memory, so its scale_inv never changes when a slot's scale moves:
// `scale` belongs to the recipe, `scale_inv` to the data. Move-only.
//
// Layouts (numerics.md 8). Row-wise: codes R x C row-major. Column-wise: codes
// C x R row-major, the transpose. Per-tensor scaling: one float32 scale_inv.
// High precision: data holds `high_precision_dtype` values and there is no
// scale.
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZED_TENSOR_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZED_TENSOR_H_

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "base/tensor_view.h"
#include "recipe/policy.h"

namespace scalekeeper {

// Independent flags of intent: what the tensor will be used for.
struct Usages {
  bool row_wise = true;
  bool column_wise = false;

  friend bool operator==(const Usages& a, const Usages& b) {
    return a.row_wise == b.row_wise && a.column_wise == b.column_wise;
  }
};

// One use of the tensor: codes in their own row-major order and their scales.
struct QuantizedData {
  Buffer codes;
  Buffer
      scale_inv;  // float32[scale_rows x scale_cols]; empty in high precision
  int64_t scale_rows = 0;
  int64_t scale_cols = 0;
};

struct QuantizedTensor {
  int64_t rows = 0;  // of the tensor that was quantized
  int64_t cols = 0;
  Scaling scaling = Scaling::kHighPrecision;
  Format format = Format::kE4M3;
  DType high_precision_dtype = DType::kBF16;
  Device device;
  std::optional<QuantizedData> row_wise;
  std::optional<QuantizedData> column_wise;

  Usages usages() const {
    return {row_wise.has_value(), column_wise.has_value()};
  }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZED_TENSOR_H_
