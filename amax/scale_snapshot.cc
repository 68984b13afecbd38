#include "amax/scale_snapshot.h"

#include <utility>

#include "amax/arena.h"
#include "amax/recipe_state_rep.h"
#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {

absl::StatusOr<ScaleSnapshot> ScaleSnapshot::Take(const RecipeState& state,
                                                  Stream stream) {
  const auto& rep = internal::StateAccess::rep(state);
  SK_RETURN_IF_ERROR(rep.RequireFrozen("ScaleSnapshot::Take"));
  ScaleSnapshot snapshot;
  snapshot.device_ = rep.options.device;
  snapshot.state_ = &state;
  Allocator* allocator = rep.options.allocator;
  if (allocator == nullptr) {
    SK_ASSIGN_OR_RETURN(allocator, DefaultAllocator(rep.options.device));
  }
  // The arena's sections of scales, inverses and measure words lie one behind
  // the other: one copy takes them all.
  const ArenaView& view = rep.StateArena().view();
  const auto* const first = reinterpret_cast<const char*>(view.scale);
  const auto offset = [first](const void* p) {
    return static_cast<size_t>(static_cast<const char*>(p) - first);
  };
  snapshot.inverse_at_ = offset(view.scale_inv);
  snapshot.measure_at_ = offset(view.measure);
  SK_ASSIGN_OR_RETURN(
      snapshot.scales_,
      Buffer::Allocate(allocator, offset(view.measure + view.slots)));
  SK_ASSIGN_OR_RETURN(
      snapshot.amax_buffer_,
      Buffer::Allocate(allocator, view.slots * sizeof(uint32_t)));
  snapshot.amaxes_ = snapshot.amax_buffer_.as<uint32_t>();
  SK_RETURN_IF_ERROR(FillBytes(snapshot.device_, snapshot.amaxes_, 0,
                               snapshot.amax_buffer_.size(), stream));
  for (int32_t i = 0; i < static_cast<int32_t>(rep.table.size()); ++i) {
    snapshot.words_.push_back(
        {rep.table.arena_index(i), rep.table.delayed_in_some_phase(i)});
  }
  SK_RETURN_IF_ERROR(snapshot.Retake(state, stream));
  return snapshot;
}

absl::Status ScaleSnapshot::Retake(const RecipeState& state, Stream stream) {
  if (&state != state_) {
    return absl::InvalidArgumentError(
        "ScaleSnapshot::Retake: got another state than Take");
  }
  step_ = state.step();
  const auto& rep = internal::StateAccess::rep(state);
  return Copy(device_, scales_.data(), rep.StateArena().view().scale,
              scales_.size(), stream);
}

SlotView ScaleSnapshot::View(SlotId slot) const {
  if (slot.value < 0 || static_cast<size_t>(slot.value) >= words_.size()) {
    return {};
  }
  const Word& word = words_[static_cast<size_t>(slot.value)];
  if (word.index < 0) return {};
  const char* const scales = scales_.as<char>();
  SlotView view;
  view.amax = amaxes_ + word.index;
  if (word.scaled) {
    view.scale = reinterpret_cast<const float*>(scales) + word.index;
    view.scale_inv =
        reinterpret_cast<const float*>(scales + inverse_at_) + word.index;
    view.measure =
        reinterpret_cast<const uint32_t*>(scales + measure_at_) + word.index;
  }
  return view;
}

}  // namespace scalekeeper
