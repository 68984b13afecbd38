// What a RecipeState holds; for its own sources.
#ifndef SCALEKEEPER_AMAX_RECIPE_STATE_REP_H_
#define SCALEKEEPER_AMAX_RECIPE_STATE_REP_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "amax/amax_group.h"
#include "amax/arena.h"
#include "amax/device_steps.h"
#include "amax/phase_switcher.h"
#include "amax/recipe_state.h"
#include "amax/slot_table.h"
#include "amax/update.h"

namespace scalekeeper {
namespace internal {

// For the few calls that return a reference and so cannot return a Status.
[[noreturn]] void DieOfMisuse(absl::string_view what);

// `"a", "b"`, or "none".
std::string QuotedList(const std::vector<std::string>& names);

}  // namespace internal

struct RecipeState::Rep {
  Rep(Recipe recipe_in, RecipeStateOptions options_in)
      : recipe(std::move(recipe_in)), options(std::move(options_in)) {}

  absl::Status RequireFrozen(absl::string_view call) const {
    if (frozen) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(call, " before Freeze: call Freeze first"));
  }
  absl::Status RequireNotPacked(absl::string_view call) const {
    if (!packed) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        call,
        " between Pack and Update: finish the step with Update, or give "
        "it up with CancelPack"));
  }
  bool Knows(SlotId slot) const {
    return slot.value >= 0 && static_cast<size_t>(slot.value) < table.size();
  }
  int32_t CheckedSlot(SlotId slot, absl::string_view call) const {
    if (!Knows(slot)) {
      internal::DieOfMisuse(absl::StrCat(
          call, ": slot ", slot.value,
          " is not of this RecipeState, which has ", table.size()));
    }
    return slot.value;
  }
  // The slot's place in the arena.
  absl::StatusOr<uint32_t> ArenaIndex(SlotId slot,
                                      absl::string_view call) const;

  absl::Status CheckGroupsAreBound() const;
  absl::Status Allocate();
  absl::Status Agree(const absl::Status& local) const;

  static constexpr uint32_t kNoGroup = UINT32_MAX;
  // kNoGroup when no slot of this state is in the group.
  uint32_t GroupIndex(absl::string_view name) const {
    const std::vector<std::string>& names = table.groups();
    const auto it = std::find(names.begin(), names.end(), name);
    return it == names.end() ? kNoGroup
                             : static_cast<uint32_t>(it - names.begin());
  }
  // Where the state lies.
  const Arena& StateArena() const { return steps ? steps->arena() : *arena; }
  // Nothing when the group has no slots in the active phase.
  AmaxMessageView Message(uint32_t group) const {
    if (group == kNoGroup) return {};
    const GroupDescriptor& d = arena->view().group_descriptors[group];
    if (d.members == 0) return {};
    return {StateArena().view().messages + d.message_offset,
            size_t{d.members} + kControlWords};
  }
  // What reductions and updates work on.
  ArenaView StepView() const { return HeldView(StateArena().view()); }
  const UpdatePolicy& update() const { return recipe.update(); }
  bool stale() const { return update().staleness != 0; }
  int64_t CurrentStep() const {
    return steps ? queued_step : arena->view().step->step;
  }
  // Whether the coming EndStep makes scales of amaxes (or begins to).
  bool UpdateIsDue() const {
    return (CurrentStep() + captured_steps + 1) % update().interval == 0;
  }
  absl::Status RequireUpdateOfParts(absl::string_view call) const;
  absl::Status EndStep(Stream stream, const uint32_t* skip_flag, bool due);
  // Puts the number of the coming step, and its phase, into force. On a GPU
  // after Fetch of everything.
  absl::Status MoveTo(int64_t step);
  // Updates with what is held, without ending a step. Synchronizes.
  absl::Status Drain();
  absl::Status Pack(Stream stream, const uint32_t* skip_flag);
  absl::Status Reduce(Stream stream, int64_t* collectives);
  absl::Status Update(Stream stream, const uint32_t* skip_flag,
                      int64_t collectives);
  absl::Status SwitchPhase(int64_t step, Stream stream);
  absl::Status HostEndStep(Stream stream, const uint32_t* skip_flag, bool due);
  // Of a state on a GPU.
  absl::Status DeviceEndStep(Stream stream, const uint32_t* skip_flag,
                             bool due);
  absl::Status DeviceUpdate(Stream stream, const uint32_t* skip_flag);
  absl::Status AfterQueued(Stream stream, int64_t collectives, bool updated);
  // Brings `arena` up to date, and what is derived from it. Host: nothing.
  absl::Status Fetch(Arena::Extent extent, Stream stream);
  // Gives `arena` back to the device. Host: nothing.
  absl::Status Store(Arena::Extent extent, Stream stream) const {
    return steps ? steps->Store(extent, stream) : absl::OkStatus();
  }
  absl::Status Fail(absl::Status status) {
    failure = status;
    return status;
  }
  std::vector<std::string> DisagreeingGroups() const;

  const Recipe recipe;
  const RecipeStateOptions options;
  SlotTable table;
  bool frozen = false;
  // In host memory: the state itself, or the mirror of one on a GPU, which is
  // up to date (but for descriptors, groups and phase, which are always) only
  // after Fetch.
  std::unique_ptr<Arena> arena;
  std::unique_ptr<DeviceSteps> steps;  // on a GPU
  PhaseSwitcher phases;
  // The bound ones.
  std::map<std::string, std::unique_ptr<AmaxGroup>, std::less<>> amax_groups;
  int64_t step_before_freeze = 0;

  bool packed = false;
  bool held = false;  // observations wait in arena.held for the next update
  int64_t captured_steps = 0;  // EndSteps of a graph that is being captured
  // Sequences (StepState) before which there is nothing to restore, and at the
  // last change of phase.
  uint32_t restore_floor = 0;
  uint32_t switch_sequence = 0;
  int64_t queued_step = 0;  // on a GPU: step, if all that is queued succeeds
  StepCounters counters;
  StepCounters previous_counters;
  absl::Status failure;  // of the last step that failed, until ClearFlags
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_RECIPE_STATE_REP_H_
