// Communicator among processes, over TCP, with Gloo; words and bytes of host
// memory.
//
// For jobs on CPUs and for tests of what happens to a job when one of its
// processes ends. Every rank sends its words to every other, which takes one
// message time for what a step sends: for groups of up to some tens of
// processes. An optional target of its own: it needs Gloo (Debian:
// libgloo-dev); nothing else of the library does.
//
// A collective fails with
//   * DeadlineExceeded when a rank did not come within `deadline` of this one;
//     the text names the group, the missing ranks, the number of the collective
//     (0 is the first) and its size;
//   * Unavailable when a rank's process ended or its communicator was
//     destroyed; the text names the rank (one that ends in the middle of a
//     message of more than 4 KB may be noticed at the deadline only);
//   * FailedPrecondition when the ranks do not make the same call.
// From then on the group is broken: this rank tells the others why; those that
// come later, and every later call, get that first error at once (one that is
// waiting for another rank, at its deadline). Data is unchanged after an error.
// But a rank that ends in the middle of a collective may have sent its words to
// some ranks and not to others: those complete it, the others do not.
// RecipeState::step() tells which ranks completed the step, and RestorePrevious
// takes them back to where the others are.
//
// Trouble never hangs or ends the process, and no exception leaves it.
// Threads: as amax/communicator.h says; Gloo starts one thread per
// communicator. SIGPIPE is blocked during calls, its action is not changed.
//
// Example:
//   GlooCommunicatorOptions options;
//   options.name = "world";
//   SK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> world,
//                       CreateGlooCommunicatorFromLauncher(options));
//   state_options.groups["default"] = world.get();
#ifndef SCALEKEEPER_AMAX_GLOO_COMMUNICATOR_H_
#define SCALEKEEPER_AMAX_GLOO_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "amax/communicator.h"
#include "amax/rendezvous.h"

namespace scalekeeper {

struct GlooCommunicatorOptions {
  // Of the group, in errors; letters, digits, '_', '-' and '.'.
  std::string name = "gloo";
  // How long a rank waits for the others in a collective, > 0: long enough for
  // the slowest rank of a healthy job, short enough that a lost rank is
  // noticed.
  absl::Duration deadline = absl::Minutes(10);
  // The same for the creation, where processes may start at different times.
  absl::Duration meeting_deadline = absl::Minutes(10);
  // Where the others reach this process: a name or digits. Empty: the address
  // from which this machine reaches rank 0; with files, that of its host name.
  std::string address;
};

// Collective: ranks 0..size-1 meet at rank 0's port. Errors as
// ExchangeThroughRank0 (amax/rendezvous.h), and Unavailable when no connection
// comes about.
absl::StatusOr<std::unique_ptr<Communicator>> CreateGlooCommunicator(
    const MeetingPoint& point, const GlooCommunicatorOptions& options = {});

// The same, at the meeting point of RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT, which torchrun and its like set. Several groups may use one
// port, one after the other.
absl::StatusOr<std::unique_ptr<Communicator>>
CreateGlooCommunicatorFromLauncher(const GlooCommunicatorOptions& options = {});

// The same, over files "<name>.<rank>" in a directory that all ranks see. It
// must exist and hold no such files of another job.
absl::StatusOr<std::unique_ptr<Communicator>> CreateGlooCommunicatorFromFiles(
    const std::string& directory, int rank, int size,
    const GlooCommunicatorOptions& options = {});

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_GLOO_COMMUNICATOR_H_
