// What the launches of this package share. Internal.
#ifndef SCALEKEEPER_QUANTIZER_LAUNCH_CUDA_CUH_
#define SCALEKEEPER_QUANTIZER_LAUNCH_CUDA_CUH_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/cuda/status_cuda.h"
#include "base/dtype.h"
#include "base/tensor_view.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "quantizer/block_kernels.h"
#include "quantizer/cast_cuda.cuh"
#include "quantizer/kernels.h"

namespace scalekeeper::kernels::cuda {

__device__ __forceinline__ bool Runs(const RunIf& run) {
  return (run.unless == nullptr || *run.unless == 0) &&
         (run.only_if == nullptr || *run.only_if != 0);
}

// By one thread, of an amax after the transform.
__device__ __forceinline__ void RaiseTransformed(const TensorAmaxWords& words,
                                                 uint32_t amax) {
  device::RaiseWord(words.column_wise, amax);
  if (words.non_finite != nullptr && IsNonFiniteAmax(amax)) {
    device::RaiseWord(words.non_finite, kFloatInfBits);
  }
}

// Blocks for `work` items of `per_block` each.
inline absl::StatusOr<unsigned> GridSize(int64_t work, int64_t per_block,
                                         absl::string_view what) {
  const int64_t blocks = (work + per_block - 1) / per_block;
  if (blocks > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": the tensor needs ", blocks, " blocks, want at most 2^31 - 1"));
  }
  return static_cast<unsigned>(blocks);
}

inline bool Aligned16(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// Rows of whole 16-byte vectors.
inline bool RowsAreVectors(const ConstTensorView& x) {
  const int64_t per_vector = static_cast<int64_t>(16 / SizeOf(x.dtype));
  return Aligned16(x.data) && x.col_stride == 1 && x.cols % 16 == 0 &&
         (x.row_stride % per_vector == 0 || x.rows <= 1);
}

inline absl::Status LaunchStatus(absl::string_view what) {
  return CudaStatus(cudaGetLastError(), absl::StrCat("launch of ", what));
}

// Calls f with the device type of a high-precision dtype.
template <typename F>
absl::Status WithType(DType dtype, F f) {
  switch (dtype) {
    case DType::kBF16:
      return f(device::BF16{});
    case DType::kF16:
      return f(device::F16{});
    case DType::kF32:
      return f(device::F32{});
    case DType::kUint8:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype: got ", Name(dtype), ", want a float type"));
}

}  // namespace scalekeeper::kernels::cuda

#endif  // SCALEKEEPER_QUANTIZER_LAUNCH_CUDA_CUH_
