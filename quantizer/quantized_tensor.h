// A quantized tensor: codes and the scales that they were made with.
//
// It owns its memory, so its scale_inv never changes when a slot's scale moves:
// `scale` belongs to the recipe, `scale_inv` to the data. Move-only. Its
// memory is that of the allocator that MakeEmpty used, and must not outlive it.
//
// Layouts (numerics.md 8). Row-wise: codes R x C row-major. Column-wise: codes
// C x R row-major, the transpose (1 x B blocks and whole rows: quantized anew).
// E2M1: two codes a byte. Per-tensor scaling: one float32 scale_inv. Others: a
// grid of them, laid out as the device's GEMMs want it (BlockScales).
// High precision: the codes are `high_precision_dtype` values and there is no
// scale. Custom: whatever its maker put there (Dequantizer).
//
// Example:
//   SK_ASSIGN_OR_RETURN(QuantizedTensor w8, quantizer->Quantize(w, stream));
//   const uint8_t* codes = w8.row_wise->codes.as<uint8_t>();
//   const float* scale_inv = w8.row_wise->scale_inv.as<float>();
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZED_TENSOR_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZED_TENSOR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/tensor_view.h"
#include "quantizer/block_scales.h"
#include "recipe/policy.h"

namespace scalekeeper {

class Dequantizer;

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
  // The memory of `scales`; empty in high precision.
  Buffer scale_inv;
  BlockScales scales;
  // NVFP4: 1 / S_enc, one float32, where scales.tensor_scale_inv points.
  Buffer tensor_scale_inv;
  // The codes are those of the Hadamard transform along their rows.
  bool hadamard = false;
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

  // Where Quantize finds the tensor's own amax (kernels::AmaxScratch), here so
  // that it allocates nothing. Empty in high precision.
  Buffer workspace;

  // Reads the codes; kCustom only (null else). Borrowed: the quantizer that
  // made the tensor must outlive its use.
  const Dequantizer* dequantizer = nullptr;

  Usages usages() const {
    return {row_wise.has_value(), column_wise.has_value()};
  }
  // Of one element of the codes: kUint8, or high_precision_dtype.
  DType code_dtype() const {
    return scaling == Scaling::kHighPrecision ? high_precision_dtype
                                              : DType::kUint8;
  }
};

// The codes of a use as a view of the original R x C shape, whichever way they
// lie (the column-wise copy with swapped strides). The use must exist.
ConstTensorView RowWiseCodes(const QuantizedTensor& tensor);
ConstTensorView ColumnWiseCodes(const QuantizedTensor& tensor);

// Uninitialized codes, one scale_inv of 1 per use and the workspace, for
// per-tensor scaling (kDelayed, kCurrent, and kCustom with FP8 codes) or,
// without scales, kHighPrecision. InvalidArgument on a negative or absurd
// extent or without any usage; the allocator's error when there is no memory.
// What is written is queued on `stream`.
absl::StatusOr<QuantizedTensor> AllocatePerTensor(int64_t rows, int64_t cols,
                                                  const Policy& policy,
                                                  Usages usages, Device device,
                                                  Allocator* allocator,
                                                  Stream stream = Stream());

// "delayed E4M3 128x256 row-wise on host".
std::string Describe(const QuantizedTensor& tensor);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZED_TENSOR_H_
