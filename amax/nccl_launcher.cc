#include "amax/nccl_launcher.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "amax/nccl_status.h"
#include "amax/rendezvous.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/status_macros.h"
#include "nccl.h"

namespace scalekeeper {

absl::StatusOr<LauncherVariables> ReadLauncherVariables() {
  SK_ASSIGN_OR_RETURN(const MeetingPoint point, MeetingPointFromEnvironment());
  LauncherVariables job;
  job.size = point.size;
  job.rank = point.rank;
  job.address = point.address;
  job.port = point.port;
  SK_ASSIGN_OR_RETURN(job.local_rank,
                      NumberFromEnvironment("LOCAL_RANK", 0, job.size - 1));
  return job;
}

absl::StatusOr<std::unique_ptr<Communicator>>
CreateNcclCommunicatorFromLauncher(const LauncherVariables& job,
                                   const NcclCommunicatorOptions& options) {
  SK_RETURN_IF_ERROR(Validate(options));
  if (const absl::Status status = CheckCudaDevice(job.local_rank);
      !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("LOCAL_RANK: got ", job.local_rank, ": ",
                                     status.message()));
  }
  ncclUniqueId id = {};
  if (job.rank == 0) {
    SK_RETURN_IF_ERROR(
        NcclStatus(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr));
  }
  std::string bytes(id.internal, sizeof(id.internal));
  MeetingPoint point;
  point.rank = job.rank;
  point.size = job.size;
  point.address = job.address;
  point.port = job.port;
  if (absl::Status status = ShareFromRank0(point, options.deadline, &bytes);
      !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("MASTER_ADDR=", job.address,
                                                    " MASTER_PORT=", job.port,
                                                    ": ", status.message()));
  }
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  return CreateNcclCommunicator(id, job.rank, job.size, job.local_rank,
                                options);
}

}  // namespace scalekeeper
