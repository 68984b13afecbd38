#include "examples/train_digits/rank_group.h"

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "amax/in_process_communicator.h"

namespace scalekeeper {
namespace {

class ThreadRankGroup : public RankGroup {
 public:
  explicit ThreadRankGroup(int ranks) {
    InProcessCommunicatorOptions options;
    options.deadline = absl::Seconds(60);
    communicators_ = CreateInProcessCommunicators(ranks, options);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank) override {
    return std::move(communicators_[static_cast<size_t>(rank)]);
  }

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Create(DeviceKind kind,
                                                             int ranks) {
  if (kind == DeviceKind::kCuda) return internal::CreateGpuRankGroup(ranks);
  return std::make_unique<ThreadRankGroup>(ranks);
}

}  // namespace scalekeeper
