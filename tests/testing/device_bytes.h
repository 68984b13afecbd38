// Bytes on a device, for tests: uploads, downloads, checks.
//
// Every step that fails, fails the test. Synchronizes.
#ifndef SCALEKEEPER_TESTS_TESTING_DEVICE_BYTES_H_
#define SCALEKEEPER_TESTS_TESTING_DEVICE_BYTES_H_

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/device_memory.h"
#include "base/tensor_view.h"
#include "gtest/gtest.h"

namespace scalekeeper {

class DeviceBytes {
 public:
  DeviceBytes(Device device, size_t size) : device_(device) {
    absl::StatusOr<Allocator*> allocator = DefaultAllocator(device);
    EXPECT_TRUE(allocator.ok()) << allocator.status();
    absl::StatusOr<Buffer> buffer = Buffer::Allocate(*allocator, size);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
  }
  DeviceBytes(Device device, const std::vector<uint8_t>& bytes)
      : DeviceBytes(device, bytes.size()) {
    Upload(bytes.data(), bytes.size());
  }
  template <typename T>
  static DeviceBytes Of(Device device, const T& value) {
    DeviceBytes bytes(device, sizeof(T));
    bytes.Upload(&value, sizeof(T));
    return bytes;
  }

  void Upload(const void* host, size_t size) {
    const absl::Status status =
        CopyFromHost(device_, buffer_.data(), host, size, Stream());
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<uint8_t> Download() const {
    std::vector<uint8_t> bytes(buffer_.size());
    const absl::Status status = CopyToHost(
        device_, bytes.data(), buffer_.data(), bytes.size(), Stream());
    EXPECT_TRUE(status.ok()) << status;
    return bytes;
  }
  template <typename T>
  T Get() const {
    T value{};
    const absl::Status status =
        CopyToHost(device_, &value, buffer_.data(), sizeof(T), Stream());
    EXPECT_TRUE(status.ok()) << status;
    return value;
  }
  template <typename T>
  T* as() {
    return buffer_.as<T>();
  }

 private:
  Device device_;
  Buffer buffer_;
};

// The host view's layout over other memory on a device.
inline TensorView OnDevice(const TensorView& host, Device device, void* data) {
  TensorView view = host;
  view.data = data;
  view.device = device;
  return view;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_DEVICE_BYTES_H_
