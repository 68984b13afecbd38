// The small kernels around a cuBLASLt call: lay operands out as it takes them,
// and do to its result what its epilogue does not.
//
// All enqueue on the current device and return at once. Pointers are on the
// device; strides count elements.
#ifndef SCALEKEEPER_GEMM_MATMUL_KERNELS_CUDA_H_
#define SCALEKEEPER_GEMM_MATMUL_KERNELS_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "amax/slot_view.h"
#include "base/tensor_view.h"
#include "cuda_runtime_api.h"
#include "gemm/matmul.h"
#include "library_types.h"
#include "numerics/format.h"

namespace scalekeeper {

// Loads all of them, so that a first launch may be captured. Does nothing where
// the chip is not among those that they were compiled for.
void LoadMatmulKernels();

// A strided rows x cols source into row-major padded_rows x padded_cols without
// gaps; what the source lacks is zero. Elements of 1, 2 or 4 bytes; the
// destination is aligned to 16 bytes.
struct PackArguments {
  const void* source = nullptr;
  void* destination = nullptr;
  int64_t element_bytes = 1;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0, col_stride = 1;
  int64_t padded_rows = 0, padded_cols = 0;
};
absl::Status PackOnDevice(const PackArguments& arguments, cudaStream_t stream);

// Factors of rows or columns of sums, on the device; null: 1.
struct OuterScale {
  const float* data = nullptr;
  int64_t stride = 0;  // 0: one for all
};

// What is made of values that become codes of an 8-bit format.
struct QuantizedDestination {
  Format format = Format::kE4M3;
  SlotView slot;
};

// out = activation(sums * scales + bias) [+ out], for rows x cols elements in
// float32, rounded once. With `is_quantized` out is of codes: encode(value *
// slot.scale), and the slot's amax takes in the values.
struct FinishArguments {
  const float* sums = nullptr;  // row-major; null: zeros (K = 0)
  int64_t sums_row_stride = 0;
  OuterScale row_scale;  // row r times data[r * stride]
  OuterScale col_scale;
  TensorView out;
  bool is_quantized = false;
  QuantizedDestination quantized;
  bool has_bias = false;
  ConstTensorView bias;  // 1 x cols
  Activation activation = Activation::kNone;
  bool accumulate = false;
};
absl::Status FinishOnDevice(const FinishArguments& arguments,
                            cudaStream_t stream);

// After a product into codes: *amax = max of both on bits (null `observed`: not
// observed), and the data's own copies of the slot's scale_inv. From compute
// capability 9.0 on the kernel is placed while the one before it ends
// (programmatic dependent launch) and waits for its results, so that most of
// its latency is hidden.
struct FoldArguments {
  const uint32_t* observed = nullptr;
  SlotView slot;
  float* row_wise_scale_inv = nullptr;     // may be null
  float* column_wise_scale_inv = nullptr;  // may be null
};
absl::Status FoldOnDevice(const FoldArguments& arguments, cudaStream_t stream);

// Random values, roughly normal: a quarter of the largest finite value wide for
// 8-bit formats (never NaN), 1 wide otherwise.
absl::Status FillRandomOnDevice(cudaDataType_t type, void* data, int64_t count,
                                cudaStream_t stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_MATMUL_KERNELS_CUDA_H_
