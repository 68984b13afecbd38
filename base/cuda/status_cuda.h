// cudaError_t as absl::Status.
//
// Example:
//   SK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, n, kind, stream));
//       // ResourceExhausted: "cudaMalloc(&data, bytes): out of memory (2)"
#ifndef SCALEKEEPER_BASE_CUDA_STATUS_CUDA_H_
#define SCALEKEEPER_BASE_CUDA_STATUS_CUDA_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cuda_runtime_api.h"

namespace scalekeeper {

// `call` is the text of the call that returned `error`.
inline absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kInternal;
  if (error == cudaErrorMemoryAllocation) {
    code = absl::StatusCode::kResourceExhausted;
  } else if (error == cudaErrorNoDevice || error == cudaErrorInvalidDevice ||
             error == cudaErrorInsufficientDriver ||
             error == cudaErrorNoKernelImageForDevice) {
    code = absl::StatusCode::kFailedPrecondition;
  } else if (error == cudaErrorInvalidValue) {
    code = absl::StatusCode::kInvalidArgument;
  }
  return absl::Status(code, absl::StrCat(call, ": ", cudaGetErrorString(error),
                                         " (", static_cast<int>(error), ")"));
}

}  // namespace scalekeeper

#define SK_CUDA_RETURN_IF_ERROR(call)                                    \
  do {                                                                   \
    if (const cudaError_t sk_error = (call); sk_error != cudaSuccess) {  \
      (void)cudaGetLastError(); /* not sticky: do not report it again */ \
      return ::scalekeeper::CudaStatus(sk_error, #call);                 \
    }                                                                    \
  } while (false)

#endif  // SCALEKEEPER_BASE_CUDA_STATUS_CUDA_H_
