#include "base/no_cuda.h"
#include "examples/train_digits/rank_group.h"

namespace scalekeeper::internal {

absl::StatusOr<std::unique_ptr<RankGroup>> CreateGpuRankGroup(int) {
  return BuiltWithoutCuda("--device=cuda");
}

}  // namespace scalekeeper::internal
