// ScaleSnapshot: the scales of one moment, for work that is done again later.
//
// Within a step nothing is needed: scales are constant, and observing twice is
// observing once. A program that updates between a forward and its
// recomputation (pipelines with several steps in flight) takes a snapshot
// before the update and recomputes with it: the same codes as at first, while
// the live scales have moved on. A copy by value: later updates, loads and
// changes of phase do not reach it.
//
// View(slot) is a SlotView like the state's, but with this snapshot's scale,
// scale_inv and measure, and with an amax word of its own that nobody reads:
// what is done again is not observed again.
//
// Threads: a snapshot is read from anywhere; Take needs what a quantizing
// kernel needs, that the caller orders it after the last update and before the
// next one. Take allocates; Retake does not, keeps the addresses, and can be
// captured in a CUDA graph. May outlive its RecipeState, not the allocator.
//
// Example:
//   SK_ASSIGN_OR_RETURN(ScaleSnapshot before,
//                       ScaleSnapshot::Take(*state, stream));
//   SK_RETURN_IF_ERROR(state->EndStep(stream));
//   before.View(fc1.input).scale;   // the device word of the first forward
#ifndef SCALEKEEPER_AMAX_SCALE_SNAPSHOT_H_
#define SCALEKEEPER_AMAX_SCALE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
#include "amax/slot_view.h"
#include "base/buffer.h"
#include "base/device.h"

namespace scalekeeper {

class ScaleSnapshot {
 public:
  // Holds nothing: every View is empty.
  ScaleSnapshot() = default;

  // Memory of the state's device and allocator. FailedPrecondition before
  // Freeze. The copy is queued on `stream`.
  static absl::StatusOr<ScaleSnapshot> Take(const RecipeState& state,
                                            Stream stream);
  // The present scales of the same state, into the same memory.
  // InvalidArgument for another state.
  absl::Status Retake(const RecipeState& state, Stream stream);

  // Null pointers as of RecipeState::View.
  SlotView View(SlotId slot) const;

  // The state's, as the host knew it when the snapshot was taken.
  int64_t step() const { return step_; }
  Device device() const { return device_; }

 private:
  struct Word {
    int32_t index = -1;  // in the arena; -1: the slot has no words
    bool scaled = false;
  };

  Device device_;
  const RecipeState* state_ = nullptr;  // for comparison alone
  int64_t step_ = 0;
  size_t inverse_at_ = 0;  // bytes from scales to inverses
  size_t measure_at_ = 0;  // bytes from scales to measure words
  Buffer amax_buffer_;     // one word per slot of the arena
  uint32_t* amaxes_ = nullptr;
  Buffer scales_;            // scales, inverses, measure words
  std::vector<Word> words_;  // by SlotId
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_SCALE_SNAPSHOT_H_
