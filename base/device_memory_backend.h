// The CUDA half of base/device_memory.h: implemented by device_memory_cuda.cc,
// or by device_memory_no_cuda.cc where the build has no CUDA.
#ifndef SCALEKEEPER_BASE_DEVICE_MEMORY_BACKEND_H_
#define SCALEKEEPER_BASE_DEVICE_MEMORY_BACKEND_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/buffer.h"
#include "base/device.h"

namespace scalekeeper::cuda {

absl::StatusOr<Allocator*> DefaultAllocator(int device);
// Between any of device and host memory.
absl::Status Copy(int device, void* destination, const void* source,
                  size_t bytes, Stream stream);
absl::Status FillBytes(int device, void* destination, unsigned char byte,
                       size_t bytes, Stream stream);
absl::Status CheckMemory(int device, const void* data, absl::string_view what);
absl::Status FillWords(int device, void* destination, uint32_t word,
                       size_t count, Stream stream);
absl::StatusOr<int> ComputeCapability(int device);
absl::Status Synchronize(int device, Stream stream);

}  // namespace scalekeeper::cuda

#endif  // SCALEKEEPER_BASE_DEVICE_MEMORY_BACKEND_H_
