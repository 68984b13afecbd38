// Mailboxes (amax/mailboxes.h) in memory that NCCL maps into all ranks of one
// NVLink domain: ncclMemAlloc, a symmetric window, peers' addresses.
#ifndef SCALEKEEPER_AMAX_NCCL_MAILBOXES_H_
#define SCALEKEEPER_AMAX_NCCL_MAILBOXES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "amax/communicator.h"
#include "amax/device_group.h"
#include "amax/nccl_handle.h"

namespace scalekeeper {

// Why the ranks of `handle` cannot have mailboxes, or "", as far as one rank
// knows without asking the others.
std::string NcclMailboxObstacle(const NcclHandle& handle);

// Collective. `communicator` is over `handle`; ranks that fail before the
// window is made tell the others over it. FailedPrecondition when not all ranks
// are on one NVLink domain. Destroying it is collective, but where the group
// is broken: an owned communicator is aborted then, the memory of a borrowed
// one leaked, as after Abandon.
absl::StatusOr<std::unique_ptr<MailboxMemory>> MakeNcclMailboxes(
    const std::shared_ptr<NcclHandle>& handle, Communicator* communicator,
    uint32_t capacity);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_NCCL_MAILBOXES_H_
