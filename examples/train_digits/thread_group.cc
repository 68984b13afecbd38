#include "examples/train_digits/thread_group.h"

#include "base/status_macros.h"

namespace scalekeeper {

absl::Status ThreadGroup::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t generation = generation_;
  if (++waiting_ == size_) {
    waiting_ = 0;
    ++generation_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return aborted_ || generation_ != generation; });
  if (aborted_) return absl::AbortedError("another rank gave up");
  return absl::OkStatus();
}

absl::Status ThreadGroup::Average(int rank, std::vector<float>* values) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    values_[static_cast<size_t>(rank)] = values;
  }
  SK_RETURN_IF_ERROR(Wait());
  std::vector<float> mean(values->size());
  for (const std::vector<float>* other : values_) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += (*other)[i];
  }
  for (float& value : mean) value /= static_cast<float>(size_);
  SK_RETURN_IF_ERROR(Wait());  // nobody reads the old values any more
  *values = std::move(mean);
  return absl::OkStatus();
}

void ThreadGroup::Abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace scalekeeper
