// Makes a CUDA device current for a scope, and the caller's current again.
//
// Example:
//   SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(1));
#ifndef SCALEKEEPER_BASE_CUDA_DEVICE_GUARD_CUDA_H_
#define SCALEKEEPER_BASE_CUDA_DEVICE_GUARD_CUDA_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/cuda/status_cuda.h"
#include "cuda_runtime_api.h"

namespace scalekeeper {

// FailedPrecondition, naming the device, when there is none of this number; the
// driver's own words when there is none at all. Asked, not tried: tools that
// watch the API's errors see none.
inline absl::Status CheckCudaDevice(int device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count);
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return CudaStatus(error, absl::StrCat("device cuda:", device));
  }
  if (device >= 0 && device < count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "device cuda:", device, ": this machine has ", count, " CUDA devices"));
}

class CudaDeviceGuard {
 public:
  // As CheckCudaDevice.
  static absl::StatusOr<CudaDeviceGuard> Enter(int device) {
    int previous = 0;
    if (const cudaError_t error = cudaGetDevice(&previous);
        error != cudaSuccess) {
      (void)cudaGetLastError();
      return CudaStatus(error, absl::StrCat("device cuda:", device));
    }
    if (previous == device) return CudaDeviceGuard(kNothingToRestore);
    if (absl::Status status = CheckCudaDevice(device); !status.ok()) {
      return status;
    }
    SK_CUDA_RETURN_IF_ERROR(cudaSetDevice(device));
    return CudaDeviceGuard(previous);
  }

  CudaDeviceGuard(CudaDeviceGuard&& other) noexcept
      : previous_(std::exchange(other.previous_, kNothingToRestore)) {}
  CudaDeviceGuard& operator=(CudaDeviceGuard&&) = delete;
  ~CudaDeviceGuard() {
    if (previous_ != kNothingToRestore) (void)cudaSetDevice(previous_);
  }

 private:
  static constexpr int kNothingToRestore = -1;
  explicit CudaDeviceGuard(int previous) : previous_(previous) {}
  int previous_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_CUDA_DEVICE_GUARD_CUDA_H_
