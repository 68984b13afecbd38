// What the library needs from a process group: the maximum of uint32 words, and
// for quantized tensors that are gathered, bytes put one after the other.
//
// Ownership: borrowed by RecipeState, must outlive it. One Communicator object
// is one rank's handle. Threads: a handle is used by one thread at a time;
// different ranks' handles from different threads.
//
// Outcome: every rank of the group makes the same calls with the same counts,
// in the same order. Either all of them get the result, or none does: then data
// is unchanged and the Status says why (DeadlineExceeded when a rank did not
// come in time, FailedPrecondition for unequal counts). After a failure the
// group is broken: every later call on any rank returns that first error at
// once.
//
// Example:
//   std::vector<std::unique_ptr<Communicator>> ranks =
//       CreateInProcessCommunicators(4);
//   ranks[r]->AllReduceMax(absl::MakeSpan(words), stream);   // from 4 threads
#ifndef SCALEKEEPER_AMAX_COMMUNICATOR_H_
#define SCALEKEEPER_AMAX_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/device.h"

namespace scalekeeper {

class DeviceGroup;

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // 0..size()-1
  virtual int size() const = 0;

  // In place, element-wise, on `stream`; words of host memory. An in-process
  // call synchronizes, and so does any call with host memory.
  virtual absl::Status AllReduceMax(absl::Span<uint32_t> data,
                                    Stream stream) = 0;

  // receive[r * bytes, (r + 1) * bytes) = what rank r sends, on `stream`.
  // Memory of the device that the group is for (in-process: the host's), not
  // overlapping. Unimplemented where a communicator has none.
  virtual absl::Status AllGather(const void* send, void* receive, size_t bytes,
                                 Stream stream);

  // What it offers to steps that are queued on a GPU; null: nothing. The same
  // on every rank.
  virtual DeviceGroup* device_group() { return nullptr; }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_COMMUNICATOR_H_
