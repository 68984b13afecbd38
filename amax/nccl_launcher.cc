#include "amax/nccl_launcher.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "amax/nccl_status.h"
#include "amax/rendezvous.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/status_macros.h"
#include "nccl.h"

namespace scalekeeper {
namespace {

absl::StatusOr<std::string> Variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return absl::NotFoundError(absl::StrCat(
      name,
      ": not set; want RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
      "MASTER_PORT, as a launcher sets them"));
}

absl::StatusOr<int> Number(const char* name, int low, int high) {
  SK_ASSIGN_OR_RETURN(const std::string text, Variable(name));
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": got \"", text, "\", want ", low, "..", high));
  }
  return value;
}

}  // namespace

absl::StatusOr<LauncherVariables> ReadLauncherVariables() {
  LauncherVariables job;
  SK_ASSIGN_OR_RETURN(job.size, Number("WORLD_SIZE", 1, 1 << 20));
  SK_ASSIGN_OR_RETURN(job.rank, Number("RANK", 0, job.size - 1));
  SK_ASSIGN_OR_RETURN(job.local_rank, Number("LOCAL_RANK", 0, job.size - 1));
  SK_ASSIGN_OR_RETURN(job.address, Variable("MASTER_ADDR"));
  SK_ASSIGN_OR_RETURN(job.port, Number("MASTER_PORT", 1, 65535));
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
