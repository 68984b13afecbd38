// A stream of this library's own, for work that runs beside the caller's.
//
// Move-only owner of a CUDA stream and an event; its work must be over when it
// is destroyed. Every call queues, none waits; all can be captured. CUDA
// devices only.
//
// Example:
//   SK_ASSIGN_OR_RETURN(SideStream side, SideStream::Create(device));
//   SK_RETURN_IF_ERROR(side.Fork(stream));    // after what `stream` has so far
//   ... work on side.stream() ...
//   SK_RETURN_IF_ERROR(side.Join(stream));    // `stream` goes on after it
#ifndef SCALEKEEPER_AMAX_SIDE_STREAM_H_
#define SCALEKEEPER_AMAX_SIDE_STREAM_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/device.h"

namespace scalekeeper {

class SideStream {
 public:
  SideStream() = default;
  SideStream(SideStream&& other) noexcept { *this = std::move(other); }
  SideStream& operator=(SideStream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~SideStream();

  // Unimplemented in a build without CUDA.
  static absl::StatusOr<SideStream> Create(const Device& device);

  absl::Status Fork(Stream stream);
  absl::Status Join(Stream stream);
  Stream stream() const { return {stream_}; }
  // Its work may never end: it is not destroyed any more.
  void Abandon() { stream_ = event_ = nullptr; }

 private:
  Device device_;
  void* stream_ = nullptr;
  void* event_ = nullptr;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_SIDE_STREAM_H_
