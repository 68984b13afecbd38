// Communicator over NCCL, one rank per GPU.
//
// Reduces the bits of amaxes as integers: a maximum of floats loses a NaN that
// is on one rank only.
//
// Three ways to get one:
//   * BorrowNcclCommunicator: over the ncclComm_t that the stack already has.
//     It is used between the stack's own calls, in the same order on every
//     rank, is never aborted or destroyed, and must outlive the communicator.
//   * CreateNcclCommunicator: a new one, from a unique id that the stack hands
//     to all ranks. It is non-blocking, so that a rank that never comes cannot
//     hang this one; NCCL then starts a thread for each reduction that is
//     queued eagerly, which costs the host some tens of microseconds (not in a
//     graph, and not where one kernel exchanges).
//   * CreateNcclCommunicatorFromLauncher (amax/nccl_launcher.h): a new one,
//     from the variables that torchrun and its like set.
//
// Words of host memory are reduced through the GPU, and the call waits; words
// of device memory are reduced in place on the caller's stream, and it does
// not. Steps of a RecipeState use device_group().
//
// Trouble never hangs or ends the process. A reduction that is not done
// `deadline` after it was queued (seen by the next step), or after somebody
// began to wait for it (Check, Scale and the like), is given up: what is queued
// behind it will do nothing; the kernels of an owned ncclComm_t are stopped
// (those of a borrowed one run on until the stack aborts it); every later call
// returns that first error. So do NCCL's own asynchronous errors.
//
// Threads: as amax/communicator.h says. The current CUDA device is unchanged.
//
// Example:
//   SK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> ranks,
//                       BorrowNcclCommunicator(comm));
//   options.device = Device::Cuda(local_rank);
//   options.groups["default"] = ranks.get();
#ifndef SCALEKEEPER_AMAX_NCCL_COMMUNICATOR_H_
#define SCALEKEEPER_AMAX_NCCL_COMMUNICATOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "amax/communicator.h"
#include "nccl.h"

namespace scalekeeper {

struct NcclCommunicatorOptions {
  // How long a rank waits for the others, > 0: in a step, in Freeze, and when
  // the communicator is created. Long enough for the slowest rank of a healthy
  // job, short enough that a lost rank is noticed.
  absl::Duration deadline = absl::Minutes(10);
};

// InvalidArgument unless every option is in its range; the calls below check
// this first.
absl::Status Validate(const NcclCommunicatorOptions& options);

// InvalidArgument for null.
absl::StatusOr<std::unique_ptr<Communicator>> BorrowNcclCommunicator(
    ncclComm_t comm, const NcclCommunicatorOptions& options = {});

// Collective: every rank 0..size-1 calls it with the same id (ncclGetUniqueId),
// each with its own CUDA device. DeadlineExceeded when a rank does not come.
absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(
    const ncclUniqueId& id, int rank, int size, int device,
    const NcclCommunicatorOptions& options = {});

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_NCCL_COMMUNICATOR_H_
