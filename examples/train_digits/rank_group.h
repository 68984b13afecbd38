// The group over which the ranks of the example reduce amaxes: threads on the
// host, NCCL between GPUs.
//
// Threads: Join is called once per rank, each from the rank's own thread; it
// waits for the others where NCCL does.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_RANK_GROUP_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_RANK_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "amax/communicator.h"
#include "base/device.h"

namespace scalekeeper {

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank) = 0;

  // FailedPrecondition when there are fewer GPUs than ranks.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(DeviceKind kind,
                                                           int ranks);
};

namespace internal {

// Implemented by rank_group_cuda.cc, or by rank_group_no_cuda.cc.
absl::StatusOr<std::unique_ptr<RankGroup>> CreateGpuRankGroup(int ranks);

}  // namespace internal
}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_RANK_GROUP_H_
