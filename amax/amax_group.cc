#include "amax/amax_group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {

absl::StatusOr<uint32_t*> AmaxGroup::Words(size_t count, Stream stream) {
  const size_t held =
      buffers_.empty() ? 0 : buffers_.back().size() / sizeof(uint32_t);
  if (count > held) {
    SK_ASSIGN_OR_RETURN(
        Buffer larger,
        Buffer::Allocate(allocator_, std::max<size_t>({count, 2 * held, 64}) *
                                         sizeof(uint32_t)));
    if (device_.kind == DeviceKind::kHost) buffers_.clear();
    buffers_.push_back(std::move(larger));
  }
  if (count == 0) return nullptr;
  uint32_t* words = buffers_.back().as<uint32_t>();
  SK_RETURN_IF_ERROR(
      FillBytes(device_, words, 0, count * sizeof(uint32_t), stream));
  return words;
}

absl::Status AmaxGroup::ReduceMax(size_t count, Stream stream) {
  if (count == 0) return absl::OkStatus();
  uint32_t* words = buffers_.back().as<uint32_t>();
  const size_t bytes = count * sizeof(uint32_t);
  const bool staged = device_.kind != DeviceKind::kHost &&
                      communicator_->device_group() == nullptr;
  absl::Status status;
  if (!staged) {
    status = communicator_->AllReduceMax(absl::MakeSpan(words, count), stream);
  } else {
    staged_.resize(std::max(staged_.size(), count));
    SK_RETURN_IF_ERROR(
        CopyToHost(device_, staged_.data(), words, bytes, stream));
    status = communicator_->AllReduceMax(absl::MakeSpan(staged_.data(), count),
                                         stream);
    if (status.ok()) {
      status = CopyFromHost(device_, words, staged_.data(), bytes, stream);
    }
  }
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("amax_group \"", name_,
                                                  "\": ", status.message()));
}

}  // namespace scalekeeper
