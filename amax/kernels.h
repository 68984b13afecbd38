// What runs over the arena in a step, one switch on the device kind.
//
// Each call enqueues on `stream` (the host finishes before it returns),
// allocates nothing and can be captured in a CUDA graph. A device without a
// backend gives Unimplemented. What is not part of a step runs on the host,
// over an arena in host memory (amax/kernels_host.h).
#ifndef SCALEKEEPER_AMAX_KERNELS_H_
#define SCALEKEEPER_AMAX_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/arena_view.h"
#include "amax/mailboxes.h"
#include "amax/mapped_words.h"
#include "base/device.h"

namespace scalekeeper {

// Unimplemented or FailedPrecondition, naming the device, where amax state
// cannot live.
absl::Status ValidateAmaxDevice(const Device& device);

// Words of host memory in which a queued step leaves what the host has to know.
// They are written on trouble only, so that a good step costs nothing.
enum StepReport : int {
  kReportAborted = 0,  // a reduction was given up before this step's update
  kReportTimedOut,     // a rank did not come within the deadline
  kReportDisagree,     // ranks differ in step, phase or scales
  kReportLayout,       // a graph of another phase was replayed
  kReportInterval,     // a graph of another step of the interval was replayed
  kReportMissingRank,  // kMaxMailboxRanks words: 1 where that rank did not come
  kStepReportWords = kReportMissingRank + kMaxMailboxRanks,
};

inline constexpr int kMaxAbortWords = 4;

// What a queued step looks at before it changes anything. Pointers are device
// addresses; null on the host.
struct StepGuard {
  // One per communicator. Non-zero: do nothing, the state is failed.
  const uint32_t* abort[kMaxAbortWords] = {};
  uint32_t* report = nullptr;  // kStepReportWords words
  uint32_t layout = 0;         // StepState::layout when it was queued
};

// Fills every message and its control words. `skip_flag`: a device word, or
// null.
absl::Status PackMessages(const Device& device, const ArenaView& arena,
                          const uint32_t* skip_flag, Stream stream);

// Puts the flag into the control words that follow the observations, where
// these are sent as they are. CUDA only.
absl::Status RaiseSkipWords(const Device& device, const ArenaView& arena,
                            const uint32_t* skip_flag, Stream stream);

// A step that updates nothing moves on to the next one. Raises *kept_skip when
// the flag is raised. `due`: whether `interval` asks for an update at this
// step; a replayed graph that finds it otherwise is reported, and moves on.
absl::Status CountStep(const Device& device, const ArenaView& arena,
                       int64_t interval, bool due, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream);

// Before an update of an interval of several steps: raises *kept_skip when the
// flag is raised, and when a replayed graph finds that no update is due, which
// is reported. *kept_skip is the update's own skip flag then.
absl::Status KeepSkip(const Device& device, const ArenaView& arena,
                      int64_t interval, const uint32_t* skip_flag,
                      const StepGuard& guard, Stream stream);

// Moves all observations to arena.held, and the flag to their control words.
// `arena` is not a HeldView.
absl::Status HoldSlots(const Device& device, const ArenaView& arena,
                       const uint32_t* skip_flag, const StepGuard& guard,
                       Stream stream);

enum class UpdateSource {
  kMessages,   // every group's message, after PackMessages
  kExchanged,  // messages of `exchanged` groups, others' observations. CUDA
               // only
};

// Updates every slot and moves on to the next step; when the ranks of any group
// disagree, only raises that group's flag (arena.step->applied tells).
absl::Status UpdateSlots(const Device& device, const ArenaView& arena,
                         UpdateSource source, const uint32_t* skip_flag,
                         const StepGuard& guard, Stream stream);

// The exchange of one direct group and the update of all slots in one kernel
// (amax/fused_step_cuda.cu). CUDA only.
absl::Status FusedStep(const Device& device, const ArenaView& arena,
                       const GroupDescriptor& group, uint32_t group_index,
                       const Mailboxes& mailboxes, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream);

// Waits for everything that is queued on the device, on any stream.
absl::Status SynchronizeDevice(const Device& device);

// Whether work on the stream is being recorded into a CUDA graph.
absl::StatusOr<bool> IsCapturing(const Device& device, Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_KERNELS_H_
