// float32 values on a device, filled from and read back to the host.
//
// On the host it is a plain array. Threads: none. Upload and Download
// synchronize.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_DEVICE_FLOATS_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_DEVICE_FLOATS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/buffer.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "base/tensor_view.h"

namespace scalekeeper {

class DeviceFloats {
 public:
  // Makes room for rows x cols values; what was there is lost when it grows.
  absl::Status Reserve(Device device, int64_t rows, int64_t cols) {
    device_ = device;
    const size_t bytes = static_cast<size_t>(rows * cols) * sizeof(float);
    if (bytes <= buffer_.size()) return absl::OkStatus();
    SK_ASSIGN_OR_RETURN(Allocator * allocator, DefaultAllocator(device));
    SK_ASSIGN_OR_RETURN(buffer_, Buffer::Allocate(allocator, bytes));
    return absl::OkStatus();
  }

  absl::Status Upload(const float* host, int64_t count) {
    return CopyFromHost(device_, buffer_.data(), host, Bytes(count), Stream());
  }
  absl::Status Download(float* host, int64_t count) const {
    return CopyToHost(device_, host, buffer_.data(), Bytes(count), Stream());
  }

  // Row-major, `offset` values into the array.
  TensorView View(int64_t rows, int64_t cols, int64_t offset = 0) {
    return TensorView::Contiguous(buffer_.as<float>() + offset, DType::kF32,
                                  rows, cols, device_);
  }

 private:
  static size_t Bytes(int64_t count) {
    return static_cast<size_t>(count) * sizeof(float);
  }

  Device device_;
  Buffer buffer_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_DEVICE_FLOATS_H_
