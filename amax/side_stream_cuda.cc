#include "amax/side_stream.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"

namespace scalekeeper {
namespace {

absl::Status Order(const Device& device, void* event, Stream first,
                   Stream second) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(device.index));
  const cudaEvent_t mark = static_cast<cudaEvent_t>(event);
  SK_CUDA_RETURN_IF_ERROR(cudaEventRecord(mark, AsCudaStream(first)));
  SK_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(AsCudaStream(second), mark, 0));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SideStream> SideStream::Create(const Device& device) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(device.index));
  SideStream side;
  side.device_ = device;
  cudaStream_t stream = nullptr;
  SK_CUDA_RETURN_IF_ERROR(
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  side.stream_ = stream;
  cudaEvent_t event = nullptr;
  SK_CUDA_RETURN_IF_ERROR(
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  side.event_ = event;
  return side;
}

SideStream::~SideStream() {
  if (event_ != nullptr) {
    (void)cudaEventDestroy(static_cast<cudaEvent_t>(event_));
  }
  if (stream_ != nullptr) {
    (void)cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
  }
}

absl::Status SideStream::Fork(Stream stream) {
  return Order(device_, event_, stream, this->stream());
}

absl::Status SideStream::Join(Stream stream) {
  return Order(device_, event_, this->stream(), stream);
}

}  // namespace scalekeeper
