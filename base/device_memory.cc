#include "base/device_memory.h"

#include <algorithm>
#include <cstring>

#include "base/device_memory_backend.h"

namespace scalekeeper {

absl::StatusOr<Allocator*> DefaultAllocator(Device device) {
  if (device.kind == DeviceKind::kHost) return HostAllocator();
  return cuda::DefaultAllocator(device.index);
}

absl::Status Copy(Device device, void* destination, const void* source,
                  size_t bytes, Stream stream) {
  if (bytes == 0) return absl::OkStatus();
  if (device.kind == DeviceKind::kCuda) {
    return cuda::Copy(device.index, destination, source, bytes, stream);
  }
  std::memmove(destination, source, bytes);
  return absl::OkStatus();
}

absl::Status CopyToHost(Device device, void* host, const void* source,
                        size_t bytes, Stream stream) {
  absl::Status status = Copy(device, host, source, bytes, stream);
  return status.ok() ? Synchronize(device, stream) : status;
}

absl::Status CopyFromHost(Device device, void* destination, const void* host,
                          size_t bytes, Stream stream) {
  absl::Status status = Copy(device, destination, host, bytes, stream);
  return status.ok() ? Synchronize(device, stream) : status;
}

absl::Status FillBytes(Device device, void* destination, unsigned char byte,
                       size_t bytes, Stream stream) {
  if (bytes == 0) return absl::OkStatus();
  if (device.kind == DeviceKind::kCuda) {
    return cuda::FillBytes(device.index, destination, byte, bytes, stream);
  }
  std::memset(destination, byte, bytes);
  return absl::OkStatus();
}

absl::Status CheckMemory(Device device, const void* data,
                         absl::string_view what) {
  if (device.kind == DeviceKind::kCuda) {
    return cuda::CheckMemory(device.index, data, what);
  }
  return absl::OkStatus();
}

absl::Status FillWords(Device device, void* destination, uint32_t word,
                       size_t count, Stream stream) {
  if (count == 0) return absl::OkStatus();
  if (device.kind == DeviceKind::kCuda) {
    return cuda::FillWords(device.index, destination, word, count, stream);
  }
  std::fill_n(static_cast<uint32_t*>(destination), count, word);
  return absl::OkStatus();
}

absl::StatusOr<int> ComputeCapability(Device device) {
  if (device.kind == DeviceKind::kHost) return 0;
  return cuda::ComputeCapability(device.index);
}

absl::Status Synchronize(Device device, Stream stream) {
  if (device.kind == DeviceKind::kCuda) {
    return cuda::Synchronize(device.index, stream);
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper
