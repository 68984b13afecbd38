#include "base/device_memory_backend.h"
#include "base/no_cuda.h"

namespace scalekeeper::cuda {

absl::StatusOr<Allocator*> DefaultAllocator(int) {
  return BuiltWithoutCuda("allocator of a CUDA device");
}
absl::Status Copy(int, void*, const void*, size_t, Stream) {
  return BuiltWithoutCuda("copy on a CUDA device");
}
absl::Status FillBytes(int, void*, unsigned char, size_t, Stream) {
  return BuiltWithoutCuda("fill on a CUDA device");
}
absl::Status CheckMemory(int, const void*, absl::string_view) {
  return BuiltWithoutCuda("memory of a CUDA device");
}
absl::Status FillWords(int, void*, uint32_t, size_t, Stream) {
  return BuiltWithoutCuda("fill on a CUDA device");
}
absl::StatusOr<int> ComputeCapability(int) {
  return BuiltWithoutCuda("compute capability of a CUDA device");
}
absl::Status Synchronize(int, Stream) {
  return BuiltWithoutCuda("synchronize a CUDA device");
}

}  // namespace scalekeeper::cuda
