#include <cstring>

#include "amax/mapped_words.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"

namespace scalekeeper {

absl::StatusOr<MappedWords> MappedWords::Allocate(const Device& device,
                                                  int count) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(device.index));
  const size_t bytes = static_cast<size_t>(count) * sizeof(uint32_t);
  MappedWords words;
  void* host = nullptr;
  SK_CUDA_RETURN_IF_ERROR(
      cudaHostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  words.words_ = static_cast<uint32_t*>(host);
  std::memset(host, 0, bytes);
  void* address = nullptr;
  SK_CUDA_RETURN_IF_ERROR(cudaHostGetDevicePointer(&address, host, 0));
  words.address_ = static_cast<uint32_t*>(address);
  return words;
}

MappedWords::~MappedWords() {
  if (words_ != nullptr) (void)cudaFreeHost(words_);
}

}  // namespace scalekeeper
