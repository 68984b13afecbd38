// What a communicator between GPUs offers besides amax/communicator.h:
// reductions and mailboxes that a queued step uses without the host.
//
// Ownership: belongs to its Communicator. Threads: as the Communicator, except
// abort_word, which any thread may read.
#ifndef SCALEKEEPER_AMAX_DEVICE_GROUP_H_
#define SCALEKEEPER_AMAX_DEVICE_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "amax/mailboxes.h"
#include "base/device.h"

namespace scalekeeper {

// This rank's share of mailboxes, unmapped and freed when destroyed, which may
// wait for the other ranks to do the same. Must not outlive the communicator;
// no kernel may use it any more.
class MailboxMemory {
 public:
  virtual ~MailboxMemory() = default;
  virtual const Mailboxes& mailboxes() const = 0;
  // A rank is lost: destruction waits for nobody, and leaks what it could only
  // give back together with the others.
  virtual void Abandon() = 0;
};

class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  virtual Device device() const = 0;

  // Queues `receive` = maximum over the ranks of `send`, `count` words each, as
  // int32: amax bits compare as with uint32, and a word with a foreign sign bit
  // counts for nothing beside another rank's. Does not wait; can be captured.
  // `what` names the reduction in errors.
  virtual absl::Status QueueMax(const uint32_t* send, uint32_t* receive,
                                size_t count, Stream stream,
                                absl::string_view what) = 0;

  // Why the group is broken, or OkStatus; looks at what was queued, without
  // waiting. Gives the group up when a reduction has been queued longer than
  // the deadline.
  virtual absl::Status Poll() = 0;
  // Waits until all that is queued on `stream` is done, at most the deadline;
  // then gives the group up.
  virtual absl::Status Wait(Stream stream) = 0;

  // Waits until all work of the device is done, on any stream, the reductions
  // of graphs included, at most the deadline; then gives the group up. An error
  // when kernels still run then.
  virtual absl::Status WaitForDevice() = 0;

  // Device address of a word that is not 0 once the group was given up: set
  // before its reductions are stopped, so that what is queued behind them sees
  // it.
  virtual const uint32_t* abort_word() const = 0;

  // Why kernels of this rank cannot reach all ranks' memory, or "".
  virtual std::string MailboxObstacle() const = 0;
  // Collective; every rank has no obstacle and asks for the same `capacity`.
  virtual absl::StatusOr<std::unique_ptr<MailboxMemory>> MakeMailboxes(
      uint32_t capacity) = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_DEVICE_GROUP_H_
