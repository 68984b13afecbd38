// Memory of a device: its default allocator, copies, fills.
//
// One switch on the device kind; without CUDA in the build (--config=cuda)
// every call for a CUDA device returns Unimplemented. The current CUDA device
// is unchanged after every call. Host calls have finished when they return;
// CUDA calls are queued on `stream` unless they say that they synchronize.
#ifndef SCALEKEEPER_BASE_DEVICE_MEMORY_H_
#define SCALEKEEPER_BASE_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/buffer.h"
#include "base/device.h"

namespace scalekeeper {

// Lives as long as the process. FailedPrecondition when there is no such
// device.
absl::StatusOr<Allocator*> DefaultAllocator(Device device);

// `bytes` from `source` to `destination`, both on `device`.
absl::Status Copy(Device device, void* destination, const void* source,
                  size_t bytes, Stream stream);
// Synchronize: the bytes are there (and `source` may be reused) on return.
absl::Status CopyToHost(Device device, void* host, const void* source,
                        size_t bytes, Stream stream);
absl::Status CopyFromHost(Device device, void* destination, const void* host,
                          size_t bytes, Stream stream);

absl::Status FillBytes(Device device, void* destination, unsigned char byte,
                       size_t bytes, Stream stream);

// InvalidArgument unless `data` is memory of `device`: "x is said to be on
// cuda:0, but its memory is the host's". Managed memory is everybody's. Costs
// about half a microsecond on CUDA; host pointers are taken on trust.
absl::Status CheckMemory(Device device, const void* data,
                         absl::string_view what);

// `count` 32-bit words.
absl::Status FillWords(Device device, void* destination, uint32_t word,
                       size_t count, Stream stream);

// Major * 10 + minor of a GPU's compute capability: 90, 100; 0 for the host.
absl::StatusOr<int> ComputeCapability(Device device);

// Waits for everything queued on `stream`; reports errors of earlier work too.
absl::Status Synchronize(Device device, Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_DEVICE_MEMORY_H_
