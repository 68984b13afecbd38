// The ranks of the example: threads that average their gradients.
//
// Threads: one call per rank at a time, each rank from its own thread. Every
// rank adds in rank order, so all of them get the same bits. When one rank
// gives up it calls Abort, and nobody waits for it: every later Average returns
// Aborted.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_THREAD_GROUP_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_THREAD_GROUP_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

namespace scalekeeper {

class ThreadGroup {
 public:
  explicit ThreadGroup(int size)
      : size_(size), values_(static_cast<size_t>(size)) {}

  // Replaces `values` by the mean over all ranks; all have the same length.
  absl::Status Average(int rank, std::vector<float>* values);
  void Abort();

 private:
  absl::Status Wait();  // until all ranks are here

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int64_t generation_ = 0;
  bool aborted_ = false;
  std::vector<const std::vector<float>*> values_;  // by rank
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_THREAD_GROUP_H_
