// Owners of CUDA streams, events and graphs, for tests, tools and benchmarks:
// the library itself works on the caller's streams.
#ifndef SCALEKEEPER_BASE_CUDA_HANDLES_CUDA_H_
#define SCALEKEEPER_BASE_CUDA_HANDLES_CUDA_H_

#include <utility>

#include "absl/status/statusor.h"
#include "base/cuda/status_cuda.h"
#include "base/device.h"
#include "cuda_runtime_api.h"

namespace scalekeeper {

template <typename Handle, cudaError_t (*kDestroy)(Handle)>
class CudaHandle {
 public:
  CudaHandle() = default;
  explicit CudaHandle(Handle handle) : handle_(handle) {}
  CudaHandle(CudaHandle&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  CudaHandle& operator=(CudaHandle&& other) noexcept {
    if (this != &other) {
      if (handle_ != nullptr) (void)kDestroy(handle_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~CudaHandle() {
    if (handle_ != nullptr) (void)kDestroy(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using CudaEvent = CudaHandle<cudaEvent_t, cudaEventDestroy>;
using CudaGraph = CudaHandle<cudaGraph_t, cudaGraphDestroy>;
using CudaGraphExec = CudaHandle<cudaGraphExec_t, cudaGraphExecDestroy>;
using CudaStream = CudaHandle<cudaStream_t, cudaStreamDestroy>;

// A stream that does not wait for the legacy default stream; on the current
// device.
inline absl::StatusOr<CudaStream> CreateCudaStream() {
  cudaStream_t stream = nullptr;
  SK_CUDA_RETURN_IF_ERROR(
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return CudaStream(stream);
}

inline absl::StatusOr<CudaEvent> CreateCudaEvent() {
  cudaEvent_t event = nullptr;
  SK_CUDA_RETURN_IF_ERROR(cudaEventCreate(&event));
  return CudaEvent(event);
}

inline Stream AsStream(const CudaStream& stream) { return {stream.get()}; }
inline cudaStream_t AsCudaStream(Stream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_CUDA_HANDLES_CUDA_H_
