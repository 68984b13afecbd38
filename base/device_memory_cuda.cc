#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/device_memory_backend.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"

namespace scalekeeper::cuda {
namespace {

// cudaMalloc aligns to 256 bytes or more.
class MallocAllocator : public Allocator {
 public:
  explicit MallocAllocator(int index) : index_(index) {}

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(index_));
    void* data = nullptr;
    if (const cudaError_t error = cudaMalloc(&data, bytes);
        error != cudaSuccess) {
      (void)cudaGetLastError();
      return CudaStatus(error, absl::StrCat("cudaMalloc of ", bytes,
                                            " bytes on cuda:", index_));
    }
    return data;
  }
  void Deallocate(void* data, size_t) override {
    absl::StatusOr<CudaDeviceGuard> guard = CudaDeviceGuard::Enter(index_);
    (void)cudaFree(data);
  }
  Device device() const override { return Device::Cuda(index_); }

 private:
  const int index_;
};

}  // namespace

absl::StatusOr<Allocator*> DefaultAllocator(int device) {
  SK_RETURN_IF_ERROR(CheckCudaDevice(device));
  static std::mutex* const mutex = new std::mutex;
  static auto* const allocators =
      new std::vector<std::unique_ptr<MallocAllocator>>;
  std::lock_guard<std::mutex> lock(*mutex);
  while (allocators->size() <= static_cast<size_t>(device)) {
    allocators->push_back(std::make_unique<MallocAllocator>(
        static_cast<int>(allocators->size())));
  }
  return (*allocators)[static_cast<size_t>(device)].get();
}

absl::Status Copy(int device, void* destination, const void* source,
                  size_t bytes, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  SK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(
      destination, source, bytes, cudaMemcpyDefault, AsCudaStream(stream)));
  return absl::OkStatus();
}

absl::Status FillBytes(int device, void* destination, unsigned char byte,
                       size_t bytes, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  SK_CUDA_RETURN_IF_ERROR(
      cudaMemsetAsync(destination, byte, bytes, AsCudaStream(stream)));
  return absl::OkStatus();
}

absl::Status CheckMemory(int device, const void* data, absl::string_view what) {
  cudaPointerAttributes attributes = {};
  SK_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, data));
  const bool on_a_device = attributes.type == cudaMemoryTypeDevice;
  if (attributes.type == cudaMemoryTypeManaged ||
      (on_a_device && attributes.device == device)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, " is said to be on cuda:", device, ", but its memory is ",
      on_a_device ? absl::StrCat("on cuda:", attributes.device)
                  : "the host's"));
}

// The runtime fills bytes only: all of them with the lowest one, then each of
// the others that differs as a matrix of one column.
absl::Status FillWords(int device, void* destination, uint32_t word,
                       size_t count, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  const int lowest = static_cast<int>(word & 0xFFu);
  SK_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
      destination, lowest, count * sizeof(word), AsCudaStream(stream)));
  for (int i = 1; i < 4; ++i) {
    const int byte = static_cast<int>(word >> (8 * i) & 0xFFu);
    if (byte == lowest) continue;
    SK_CUDA_RETURN_IF_ERROR(cudaMemset2DAsync(
        static_cast<unsigned char*>(destination) + i, sizeof(word), byte,
        /*width=*/1, count, AsCudaStream(stream)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> ComputeCapability(int device) {
  int major = 0;
  int minor = 0;
  SK_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(
      &major, cudaDevAttrComputeCapabilityMajor, device));
  SK_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(
      &minor, cudaDevAttrComputeCapabilityMinor, device));
  return major * 10 + minor;
}

absl::Status Synchronize(int device, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  SK_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(AsCudaStream(stream)));
  return absl::OkStatus();
}

}  // namespace scalekeeper::cuda
