// Lets work go on beside a stream, and makes sure that the stream waits for it.
//
// What was forked is joined when the scope ends, whatever failed before: a
// capture would be void else, and later work on the stream could overtake that
// of the lanes. Only lanes that were forked are joined, since one that is not
// part of a capture must not be waited for in it.
//
// Threads: none.
//
// Example:
//   ForkScope scope(lanes);
//   SK_RETURN_IF_ERROR(scope.Fork(4));      // lanes 1, 2, 3
//   ...                                     // may return early
//   return scope.Join();
#ifndef SCALEKEEPER_GEMM_FORK_SCOPE_H_
#define SCALEKEEPER_GEMM_FORK_SCOPE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace scalekeeper {

// A stream, as lane 0, and lanes beside it.
class ForkableLanes {
 public:
  virtual ~ForkableLanes() = default;

  // Marks where lanes begin: what is queued on the stream by now.
  virtual absl::Status Mark() = 0;
  // The lane waits for the mark.
  virtual absl::Status Fork(size_t lane) = 0;
  // The stream waits for all that is queued on the lane.
  virtual absl::Status Join(size_t lane) = 0;
};

class ForkScope {
 public:
  // Borrowed.
  explicit ForkScope(ForkableLanes* lanes) : lanes_(lanes) {}
  ForkScope(const ForkScope&) = delete;
  ForkScope& operator=(const ForkScope&) = delete;
  ~ForkScope() { (void)Join(); }

  // Lanes 1 to `count` - 1, once.
  absl::Status Fork(size_t count) {
    if (count < 2) return absl::OkStatus();
    SK_RETURN_IF_ERROR(lanes_->Mark());
    for (size_t lane = 1; lane < count; ++lane) {
      SK_RETURN_IF_ERROR(lanes_->Fork(lane));
      forked_ = lane;
    }
    return absl::OkStatus();
  }

  // All that were forked, also after an error, which is the first one's.
  absl::Status Join() {
    absl::Status status;
    for (; forked_ > 0; --forked_) status.Update(lanes_->Join(forked_));
    return status;
  }

 private:
  ForkableLanes* const lanes_;
  size_t forked_ = 0;  // the last of them
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_FORK_SCOPE_H_
