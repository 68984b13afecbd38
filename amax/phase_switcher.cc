#include "amax/phase_switcher.h"

#include <algorithm>

#include "amax/history.h"
#include "amax/update.h"
#include "numerics/format.h"

namespace scalekeeper {
namespace {

bool IsDelayed(const Policy& policy) {
  return policy.scaling == Scaling::kDelayed;
}

// The policy's own one, else that of the first phase in which it is delayed,
// else (for a slot that is only watched) one with the shortest window.
Policy DelayedPolicy(const std::vector<Policy>& policies, int phase) {
  const Policy& own = policies[static_cast<size_t>(phase)];
  if (IsDelayed(own)) return own;
  const auto delayed =
      std::find_if(policies.begin(), policies.end(), IsDelayed);
  if (delayed != policies.end()) return *delayed;
  Policy watched = own;
  watched.delayed.amax_history_len = 1;
  return watched;
}

SlotUse UseOf(const Policy& policy) {
  if (IsDelayed(policy)) return SlotUse::kDelayed;
  return ScalesItself(policy.scaling) ? SlotUse::kWatched : SlotUse::kNone;
}

bool MeasuresFirst(const Policy& policy) {
  return policy.delayed.first_step == FirstStep::kMeasure;
}

// Whether going from `a` to `b` leaves window, maxima and scale as they are.
bool SameWindow(const SlotDescriptor& a, const SlotDescriptor& b) {
  return a.use == b.use && a.history_len == b.history_len &&
         a.algo_value == b.algo_value && a.format_max == b.format_max;
}

}  // namespace

ArenaLayout PhaseSwitcher::LayoutOf(const SlotTable& table) {
  ArenaLayout layout;
  const size_t groups = table.groups().size() + 1;
  layout.message_words.assign(groups, 0);
  for (int32_t slot : table.arena_slots()) {
    ArenaLayout::Slot place;
    place.group = table.group(/*phase=*/0, slot);
    uint32_t first_len = 0;
    for (const Policy& policy : table.policies(slot)) {
      if (!IsDelayed(policy)) continue;
      const uint32_t len =
          static_cast<uint32_t>(policy.delayed.amax_history_len);
      if (first_len == 0) first_len = len;
      place.two_rings = place.two_rings || len != first_len;
      place.capacity = std::max(place.capacity, len);
    }
    layout.slots.push_back(place);
  }
  for (int phase = 0; phase < table.phases(); ++phase) {
    std::vector<uint32_t> words(groups, kControlWords);
    for (int32_t slot : table.arena_slots()) ++words[table.group(phase, slot)];
    for (size_t g = 0; g < groups; ++g) {
      layout.message_words[g] = std::max(layout.message_words[g], words[g]);
    }
  }
  return layout;
}

PhaseSwitcher::PhaseSwitcher(const SlotTable* table, const Arena* arena,
                             int phase)
    : table_(table),
      arena_(arena),
      active_phase_(phase),
      rings_(arena->view().slots) {
  if (table->phases() > 1) backups_.resize(arena->view().slots);
  const ArenaView& view = arena->view();
  for (uint32_t i = 0; i < view.slots; ++i) {
    const std::vector<Policy>& policies =
        table->policies(table->arena_slots()[i]);
    const Policy policy = DelayedPolicy(policies, phase);
    SlotDescriptor descriptor = arena->Placement(i);
    Describe(policy, &descriptor);
    descriptor.use = UseOf(policies[static_cast<size_t>(phase)]);
    view.descriptors[i] = descriptor;
    view.measure[i] = MeasuresFirst(policy) ? 1 : 0;
    view.histories[i].cursor = FirstPosition(i, descriptor.history_len);
  }
  PlaceMessages(phase);
}

void PhaseSwitcher::Describe(const Policy& policy,
                             SlotDescriptor* descriptor) const {
  descriptor->history_len =
      static_cast<uint32_t>(policy.delayed.amax_history_len);
  descriptor->format_max = FormatMax(policy.format);
  descriptor->margin = static_cast<uint8_t>(policy.delayed.margin);
  descriptor->algo_value =
      static_cast<uint8_t>(policy.delayed.amax_compute_algo);
  descriptor->non_finite_value =
      static_cast<uint8_t>(policy.delayed.non_finite_amax);
}

void PhaseSwitcher::PlaceMessages(int phase) {
  const ArenaView& view = arena_->view();
  for (uint32_t g = 0; g < view.groups; ++g) {
    const uint32_t exchanged = view.group_descriptors[g].exchanged;
    view.group_descriptors[g] = arena_->GroupPlacement(g);
    view.group_descriptors[g].exchanged = exchanged;
    view.group_descriptors[g].direct = 1;
  }
  for (uint32_t i = 0; i < view.slots; ++i) {
    SlotDescriptor& descriptor = view.descriptors[i];
    descriptor.group = table_->group(phase, table_->arena_slots()[i]);
    GroupDescriptor& group = view.group_descriptors[descriptor.group];
    const uint32_t position = group.members++;
    descriptor.message_position = position;
    descriptor.message_index = group.message_offset + position;
    if (descriptor.amax_index != group.amax_offset + position) group.direct = 0;
  }
  for (uint32_t g = 0; g < view.groups; ++g) {
    GroupDescriptor& group = view.group_descriptors[g];
    if (group.members != arena_->FirstPhaseMembers(g)) group.direct = 0;
  }
  ++view.step->layout;
  view.step->phase = phase;
}

void PhaseSwitcher::SwitchTo(int phase) {
  if (phase == active_phase_) return;
  Revert();
  if (phase == active_phase_) return;
  const ArenaView& view = arena_->view();
  for (uint32_t i = 0; i < view.slots; ++i) {
    const SlotDescriptor current = view.descriptors[i];
    backups_[i] = {current, view.histories[i], view.scale[i], view.measure[i],
                   rings_[i]};
    const Policy& policy =
        table_->policies(table_->arena_slots()[i])[static_cast<size_t>(phase)];
    SlotDescriptor next = current;
    next.use = UseOf(policy);
    if (next.use == SlotUse::kDelayed) Describe(policy, &next);
    if (next.history_len != current.history_len) {
      rings_[i] ^= 1;
      next.ring_offset = arena_->RingOffset(i, rings_[i]);
    }
    if (SameWindow(current, next) && view.histories[i].count != 0) {
      view.descriptors[i] = next;
    } else {
      ChangeSlot(view, i, next, current.format_max != next.format_max,
                 MeasuresFirst(policy));
    }
  }
  PlaceMessages(phase);
  previous_phase_ = active_phase_;
  active_phase_ = phase;
  switched_ = true;
}

bool PhaseSwitcher::Revert() {
  if (!switched_) return false;
  const ArenaView& view = arena_->view();
  for (uint32_t i = 0; i < view.slots; ++i) {
    const Backup& backup = backups_[i];
    const bool same_window = SameWindow(backup.descriptor, view.descriptors[i]);
    view.descriptors[i] = backup.descriptor;
    view.histories[i] = backup.history;
    SetScale(view, i, backup.scale);
    view.measure[i] = backup.measure;
    rings_[i] = backup.ring;
    if (!same_window) {
      RebuildMaxima(RingOf(view, backup.descriptor), view.histories[i]);
    }
  }
  PlaceMessages(previous_phase_);
  active_phase_ = previous_phase_;
  switched_ = false;
  return true;
}

}  // namespace scalekeeper
