// NCCL communicators from the variables that launchers set.
//
// torchrun, srun wrappers and most MPI launch scripts set, for each process:
//   RANK         0..WORLD_SIZE-1
//   WORLD_SIZE   number of processes
//   LOCAL_RANK   which GPU of its machine is this process's
//   MASTER_ADDR  name or address of rank 0's machine
//   MASTER_PORT  a port there that rank 0 may listen on
// Rank 0 hands NCCL's unique id to the others over one TCP connection each.
// Where another service (torchrun's own store) listens on MASTER_PORT, give
// another port in `port`.
//
// Errors name the variable and its value (InvalidArgument, NotFound), the ranks
// that did not come (DeadlineExceeded) or the address that does not answer.
//
// Example:
//   SK_ASSIGN_OR_RETURN(LauncherVariables job, ReadLauncherVariables());
//   SK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> world,
//                       CreateNcclCommunicatorFromLauncher(job));
//   options.device = Device::Cuda(job.local_rank);
#ifndef SCALEKEEPER_AMAX_NCCL_LAUNCHER_H_
#define SCALEKEEPER_AMAX_NCCL_LAUNCHER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "amax/communicator.h"
#include "amax/nccl_communicator.h"

namespace scalekeeper {

struct LauncherVariables {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string address = "127.0.0.1";
  int port = 0;
};

// From the environment.
absl::StatusOr<LauncherVariables> ReadLauncherVariables();

// Collective; on CUDA device `local_rank`. `options.deadline` holds for meeting
// and for NCCL's own start, each.
absl::StatusOr<std::unique_ptr<Communicator>>
CreateNcclCommunicatorFromLauncher(const LauncherVariables& job,
                                   const NcclCommunicatorOptions& options = {});

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_NCCL_LAUNCHER_H_
