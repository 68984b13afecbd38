// Communicator among threads of one process.
//
// A collective completes for all ranks or fails for all. It fails with
//   * DeadlineExceeded when a rank did not come within `deadline` of the first
//     one that waits; the text names the missing ranks, the sequence number of
//     the collective (0 is the first) and the count of words;
//   * FailedPrecondition when the counts differ; the text names both;
//   * Unavailable when a rank's handle was destroyed; the text names the rank.
// From then on the group is broken: ranks that come late, and every later call,
// get that first error at once. Waiting ranks sleep. A warm collective does not
// allocate (unless its count grows).
//
// Ownership: the handles share the meeting place; each may be destroyed on its
// own. Threads: as amax/communicator.h says.
//
// Example:
//   InProcessCommunicatorOptions options;
//   options.deadline = absl::Seconds(30);
//   auto ranks = CreateInProcessCommunicators(4, options);
//   // thread r:
//   SK_RETURN_IF_ERROR(ranks[r]->AllReduceMax(absl::MakeSpan(words), stream));
#ifndef SCALEKEEPER_AMAX_IN_PROCESS_COMMUNICATOR_H_
#define SCALEKEEPER_AMAX_IN_PROCESS_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "amax/communicator.h"

namespace scalekeeper {

struct InProcessCommunicatorOptions {
  // How long a rank waits for the others in one collective, > 0. Long enough
  // for the slowest rank of a healthy job (a checkpoint, an evaluation), short
  // enough that a lost rank is noticed. InfiniteDuration() waits for ever.
  absl::Duration deadline = absl::Minutes(10);
};

// One handle per rank, 0..size-1, in that order; empty when size < 1.
std::vector<std::unique_ptr<Communicator>> CreateInProcessCommunicators(
    int size, const InProcessCommunicatorOptions& options = {});

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_IN_PROCESS_COMMUNICATOR_H_
