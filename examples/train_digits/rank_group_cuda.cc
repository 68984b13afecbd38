#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "amax/nccl_communicator.h"
#include "base/cuda/status_cuda.h"
#include "examples/train_digits/rank_group.h"
#include "nccl.h"

namespace scalekeeper::internal {
namespace {

class NcclRankGroup : public RankGroup {
 public:
  NcclRankGroup(const ncclUniqueId& id, int ranks) : id_(id), ranks_(ranks) {}
  absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank) override {
    NcclCommunicatorOptions options;
    options.deadline = absl::Seconds(60);
    return CreateNcclCommunicator(id_, rank, ranks_, /*device=*/rank, options);
  }

 private:
  ncclUniqueId id_;
  int ranks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> CreateGpuRankGroup(int ranks) {
  int gpus = 0;
  SK_CUDA_RETURN_IF_ERROR(cudaGetDeviceCount(&gpus));
  if (ranks > gpus) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--ranks: got ", ranks, " with --device=cuda, want at most ", gpus,
        ": one GPU a rank"));
  }
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) {
    return absl::InternalError(
        absl::StrCat("ncclGetUniqueId: ", ncclGetErrorString(result)));
  }
  return std::make_unique<NcclRankGroup>(id, ranks);
}

}  // namespace scalekeeper::internal
