// A TestTensor's bytes, gaps included, in the memory of a device (or the host).
#ifndef SCALEKEEPER_TESTS_TESTING_DEVICE_TENSOR_H_
#define SCALEKEEPER_TESTS_TESTING_DEVICE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "base/tensor_view.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {

// `bytes` on `device`, `offset` bytes into an allocation of their own.
inline absl::StatusOr<Buffer> Upload(Device device,
                                     const std::vector<uint8_t>& bytes,
                                     size_t offset = 0) {
  SK_ASSIGN_OR_RETURN(Allocator * allocator, DefaultAllocator(device));
  SK_ASSIGN_OR_RETURN(Buffer buffer,
                      Buffer::Allocate(allocator, offset + bytes.size()));
  SK_RETURN_IF_ERROR(CopyFromHost(device, buffer.as<char>() + offset,
                                  bytes.data(), bytes.size(), Stream()));
  return buffer;
}

class DeviceTensor {
 public:
  // `offset` bytes into its allocation: a multiple of the element's size.
  static absl::StatusOr<DeviceTensor> Of(Device device, TestTensor tensor,
                                         size_t offset = 0) {
    SK_ASSIGN_OR_RETURN(Buffer buffer, Upload(device, tensor.bytes(), offset));
    return DeviceTensor(device, std::move(tensor), std::move(buffer), offset);
  }

  TensorView view() {
    TensorView view = tensor_.view();
    view.data = buffer_.as<char>() + offset_;
    view.device = device_;
    return view;
  }

  // Waits for `stream`.
  absl::StatusOr<TestTensor> Download(Stream stream) {
    TestTensor copy = tensor_;
    SK_RETURN_IF_ERROR(CopyToHost(device_, copy.view().data,
                                  buffer_.as<char>() + offset_,
                                  copy.bytes().size(), stream));
    return copy;
  }

 private:
  DeviceTensor(Device device, TestTensor tensor, Buffer buffer, size_t offset)
      : device_(device),
        tensor_(std::move(tensor)),
        buffer_(std::move(buffer)),
        offset_(offset) {}

  Device device_;
  TestTensor tensor_;  // its shape, and what was uploaded
  Buffer buffer_;
  size_t offset_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_DEVICE_TENSOR_H_
