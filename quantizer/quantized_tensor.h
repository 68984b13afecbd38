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

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/tensor_view.h"
#include "quantizer/block_scales.h"
#include "recipe/policy.h"

namespace scalekeeper {

class Dequantizer;

// What a tensor will be used for. Intents, not layouts: which buffers serve
// them is the format's and the device's business.
enum class Usage {
  kRowWise,     // GEMMs that contract its columns
  kColumnWise,  // GEMMs that contract its rows
  // As kColumnWise, after the tensors of several ranks have been put one below
  // the other (quantizer/all_gather.h).
  kAllGatherColumnWise,
};

// Independent flags.
struct Usages {
  bool row_wise = true;
  bool column_wise = false;
  bool all_gather_column_wise = false;

  bool any() const { return row_wise || column_wise || all_gather_column_wise; }
  // "row_wise, column_wise", or "none".
  std::string ToString() const;

  friend bool operator==(const Usages& a, const Usages& b) {
    return a.row_wise == b.row_wise && a.column_wise == b.column_wise &&
           a.all_gather_column_wise == b.all_gather_column_wise;
  }
  friend bool operator!=(const Usages& a, const Usages& b) { return !(a == b); }
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

// What UpdateUsage does with copies that are not wanted.
enum class Unwanted {
  kKeep,
  kDrop,  // frees them; work that reads them has been done
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
  // The column-wise data are there to be gathered, too.
  bool all_gather_column_wise = false;

  // Where Quantize finds the tensor's own amaxes (QuantizeWorkspace), here so
  // that it allocates nothing. Empty in high precision.
  Buffer workspace;

  // Reads the codes; kCustom only (null else). Borrowed: the quantizer that
  // made the tensor must outlive its use.
  const Dequantizer* dequantizer = nullptr;

  Usages usages() const {
    return {row_wise.has_value(), column_wise.has_value(),
            all_gather_column_wise};
  }
  // Makes the copies that `usages` want and the tensor lacks, where the one
  // that it has gives the same bits as quantizing anew: high precision, one
  // scale per tensor, square blocks. Memory comes from the tensor's own
  // allocator; work is queued on `stream`. FailedPrecondition naming the
  // scaling and why, where the other direction must be quantized from high
  // precision.
  absl::Status UpdateUsage(const Usages& usages, Stream stream,
                           Unwanted unwanted = Unwanted::kKeep);
  // Memory that it holds.
  size_t bytes() const;
  // Of one element of the codes: kUint8, or high_precision_dtype.
  DType code_dtype() const {
    return scaling == Scaling::kHighPrecision ? high_precision_dtype
                                              : DType::kUint8;
  }
};

// Bytes of the codes of a use, whether or not it exists.
size_t CodeBytes(const QuantizedTensor& tensor, bool column_wise);

// The codes of a use as a view of the original R x C shape, whichever way they
// lie (the column-wise copy with swapped strides). The use must exist. Not for
// E2M1, whose packed codes no strides describe: take `codes` and `scales` of
// the use (BlockDecode, CodeRowBytes).
ConstTensorView RowWiseCodes(const QuantizedTensor& tensor);
ConstTensorView ColumnWiseCodes(const QuantizedTensor& tensor);

// Uninitialized codes, scales of 1 (tiled ones: 0) as quantizer/scale_grid.h
// places them, and the workspace. kCustom: FP8 codes and one scale per use.
// InvalidArgument on a negative or absurd extent, without any usage, or for a
// column-wise copy with random_hadamard of rows that are no multiple of 16; the
// allocator's error when there is no memory. What is written is queued on
// `stream`. `more_workspace`: bytes, uninitialized, behind the workspace's own.
absl::StatusOr<QuantizedTensor> AllocateQuantized(int64_t rows, int64_t cols,
                                                  const Policy& policy,
                                                  Usages usages, Device device,
                                                  Allocator* allocator,
                                                  Stream stream = Stream(),
                                                  size_t more_workspace = 0);

// One more use of `tensor`, as AllocateQuantized under `policy` gives it.
absl::StatusOr<QuantizedData> AllocateUse(const QuantizedTensor& tensor,
                                          const Policy& policy,
                                          bool column_wise,
                                          Allocator* allocator, Stream stream);

// Whether Quantize under `policy` can write `tensor`: scaling, formats, blocks
// and transforms are those that AllocateQuantized gives.
bool IsLaidOutFor(const QuantizedTensor& tensor, const Policy& policy);

// "delayed E4M3 128x256 row-wise on host".
std::string Describe(const QuantizedTensor& tensor);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZED_TENSOR_H_
