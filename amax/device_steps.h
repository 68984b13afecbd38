// DeviceSteps: how the steps of a state on a GPU are exchanged and queued.
//
// The state's slots lie in an arena on the device; a second one of the same
// layout, the mirror, lies in host memory. A step runs on the device alone:
//   alone      no group has another rank to ask: one kernel
//   fused      one group on one NVLink domain: one kernel
//              (amax/fused_step_cuda.cu)
//   reduced    one queued reduction per group, of the observations as they
//              lie, and one kernel
//   packed     the same after a kernel that packs the messages, in phases whose
//              groups are not those of the first phase
//   staged     a communicator of host memory: messages go to the host and back;
//              synchronizes and cannot be captured
// With stale updates (the recipe's update.staleness) a step is in two parts:
// the update of what is held, then (QueueHold) what was observed is held,
// packed and reduced on a stream of its own, beside whatever the caller queues
// next. Everything else (a change of phase, undoing, reports) is done by host
// code on the mirror, between Fetch and Store.
//
// Trouble. A step that is given up leaves words in host memory, which Poll
// reads without asking the device. From then on the state is broken: queued
// steps do nothing, and Fetch undoes what a step that was given up half-way had
// done.
//
// Threads: as RecipeState, which owns it.
#ifndef SCALEKEEPER_AMAX_DEVICE_STEPS_H_
#define SCALEKEEPER_AMAX_DEVICE_STEPS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/arena.h"
#include "amax/communicator.h"
#include "amax/device_group.h"
#include "amax/exchange.h"
#include "amax/kernels.h"
#include "amax/mapped_words.h"
#include "amax/side_stream.h"
#include "base/device.h"
#include "recipe/policy.h"

namespace scalekeeper {

class DeviceSteps {
 public:
  struct Group {
    std::string name;
    uint32_t index = 0;
    Communicator* communicator = nullptr;
  };

  // `mirror` is filled; its content goes to the device. `groups`: the bound
  // ones that have slots, in the order in which they are exchanged. Borrows
  // what it points to.
  static absl::StatusOr<std::unique_ptr<DeviceSteps>> Create(
      const Device& device, Allocator* allocator, const ArenaLayout& layout,
      const UpdatePolicy& update, Arena* mirror, std::vector<Group> groups);

  // Waits as WaitForDevice does. Where kernels still run then, which only the
  // owner of a borrowed communicator can stop, it leaks what they use: freeing
  // would wait for them.
  ~DeviceSteps();

  // Collective over every group: all ranks take the same path. `bound` as in
  // RecipeStateOptions. FailedPrecondition, on every rank, when `wanted` cannot
  // be had or differs between ranks, or `steps` is null (a state in host
  // memory) on some of them only.
  static absl::Status AgreeOnExchange(
      const std::map<std::string, Communicator*>& bound, Exchange wanted,
      DeviceSteps* steps);

  const Arena& arena() const { return *arena_; }
  StepGuard guard() const;
  // A skip flag that is always raised.
  const uint32_t* raised_flag() const {
    return report_.device_address() + kStepReportWords;
  }

  // Queues a whole step; adds the reductions to *collectives. Not for stale
  // updates.
  absl::Status Queue(const uint32_t* skip_flag, Stream stream,
                     int64_t* collectives);
  // Queues a step that updates nothing.
  absl::Status QueueCount(bool due, const uint32_t* skip_flag, Stream stream);
  // Stale updates: the update of what is held, which is reduced first where
  // QueueHold did not (after a restored state).
  absl::Status QueueHeldUpdate(Stream stream, int64_t* collectives);
  // Holds what was observed and begins its reductions.
  absl::Status QueueHold(const uint32_t* skip_flag, Stream stream,
                         int64_t* collectives);
  // Keeps the flag of a step of the interval for QueueHold.
  absl::Status QueueKeep(const uint32_t* skip_flag, Stream stream);
  absl::Status ForgetSkip(Stream stream);
  // Makes the stream wait for the reductions that QueueHold began, if it has
  // not yet.
  absl::Status JoinReductions(Stream stream);
  // What is held was rewritten between Fetch and Store: it is reduced anew.
  void ForgetReductions() { reduced_ = false; }
  // OkStatus when a graph that is being captured may queue a step.
  absl::Status CheckCapture(bool held) const;

  // Why no further step can run, or OkStatus. Does not wait.
  absl::Status Poll();
  // What queued steps found wrong without breaking the state: ranks that
  // disagree (DataLoss), a graph of another phase. Until ClearReports.
  absl::Status Warning() const;
  void ClearReports();

  // Waits for all work of the device, on any stream and in any graph, at most
  // the groups' deadlines; then gives them up.
  absl::Status WaitForDevice();
  // Waits for the stream, at most the groups' deadlines.
  absl::Status Wait(Stream stream);
  // Waits, then brings the mirror up to date.
  absl::Status Fetch(Arena::Extent extent, Stream stream);
  // Gives the mirror's content to the device.
  absl::Status Store(Arena::Extent extent, Stream stream);

  // "one kernel over NVLink", ...
  std::string Describe() const;

 private:
  enum class Path { kAlone, kFused, kReduced, kPacked, kStaged };

  DeviceSteps() = default;
  const GroupDescriptor& Descriptor(const Group& group) const {
    return mirror_->view().group_descriptors[group.index];
  }
  Path ChoosePath() const;
  // Why this rank cannot exchange in one kernel, or "".
  std::string FusedObstacle(Exchange wanted) const;
  // Because its blocks would not all run at once.
  std::string GridObstacle(int ranks, Exchange wanted) const;
  absl::Status MakeMailboxes(Communicator* communicator, Exchange wanted);
  ArenaView StepView() const { return HeldView(arena_->view()); }
  bool stale() const { return update_.staleness != 0; }
  absl::Status QueueReductions(Path path, Stream stream, int64_t* collectives);
  absl::Status WarmUp();
  absl::Status Stage(const Group& group, Stream stream);
  absl::Status Break(absl::Status status);

  Device device_;
  UpdatePolicy update_;
  std::unique_ptr<Arena> arena_;
  Arena* mirror_ = nullptr;
  std::vector<Group> groups_;
  std::vector<uint32_t> staged_;  // largest message, for kStaged
  std::unique_ptr<MailboxMemory> mailboxes_;
  std::string obstacle_;  // why not fused, when it was not asked away
  MappedWords report_;
  SideStream side_;       // of stale updates
  bool reduced_ = false;  // what is held is, or will be when joined
  bool to_join_ = false;  // the side stream has work since the last join
  absl::Status broken_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_DEVICE_STEPS_H_
