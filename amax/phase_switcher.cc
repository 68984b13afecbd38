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

bool AnyHasLength(const std::vector<Policy>& policies, uint32_t length) {
  return std::any_of(policies.begin(), policies.end(), [&](const Policy& p) {
    return IsDelayed(p) &&
           p.delayed.amax_history_len == static_cast<int64_t>(length);
  });
}

// All but the length of the window.
void DescribeScale(const ScaleOptions& options, SlotDescriptor* descriptor) {
  descriptor->format_max = FormatMax(options.format);
  descriptor->margin = static_cast<uint8_t>(options.margin);
  descriptor->algo_value = static_cast<uint8_t>(options.algo);
  descriptor->non_finite_value = static_cast<uint8_t>(options.non_finite);
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
    view.descriptors[i] = arena->Placement(i);
    LoadSlot(i, phase, /*image=*/nullptr);
  }
  PlaceMessages(phase);
}

void PhaseSwitcher::Describe(const Policy& policy,
                             SlotDescriptor* descriptor) const {
  const ScaleOptions options = ScaleOptionsOf(policy);
  DescribeScale(options, descriptor);
  descriptor->history_len = options.history_len;
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

void PhaseSwitcher::Load(int phase, absl::Span<const SlotImage* const> images) {
  for (uint32_t i = 0; i < arena_->view().slots; ++i) {
    LoadSlot(i, phase, images[i]);
  }
  // Graphs that were captured in the phase stay good.
  if (phase != active_phase_) PlaceMessages(phase);
  active_phase_ = phase;
  switched_ = false;
}

void PhaseSwitcher::ResetSlot(uint32_t slot) {
  LoadSlot(slot, active_phase_, /*image=*/nullptr);
  switched_ = false;
}

void PhaseSwitcher::LoadSlot(uint32_t slot, int phase, const SlotImage* image) {
  const ArenaView& view = arena_->view();
  const int32_t id = table_->arena_slots()[slot];
  const std::vector<Policy>& policies = table_->policies(id);
  const Policy policy = DelayedPolicy(policies, phase);
  const bool measure_first = MeasuresFirst(policy);
  SlotDescriptor next = view.descriptors[slot];
  Describe(policy, &next);
  next.use = UseOf(policies[static_cast<size_t>(phase)]);
  next.ring_offset = arena_->RingOffset(slot, 0);
  rings_[slot] = 0;

  const DelayedImage nothing;
  const DelayedImage* delayed = nullptr;
  if (image != nullptr && image->delayed && table_->delayed_in_some_phase(id)) {
    delayed = &*image->delayed;
  }
  SlotDescriptor saved = next;
  if (delayed != nullptr && delayed->options.has_value()) {
    DescribeScale(*delayed->options, &saved);
    if (next.use != SlotUse::kDelayed) {
      if (AnyHasLength(policies, delayed->options->history_len)) {
        saved.history_len = delayed->options->history_len;
      }
      next = saved;
    }
  }
  const DelayedImage& from = delayed == nullptr ? nothing : *delayed;
  const RingView ring = RingOf(view, next);
  SlotHistory history;
  history.cursor = FirstPosition(slot, ring.len);
  const size_t kept = std::min<size_t>(from.window.size(), ring.len);
  for (size_t i = from.window.size() - kept; i < from.window.size(); ++i) {
    Push(ring, history, from.window[i]);
  }
  RebuildMaxima(ring, history);
  view.histories[slot] = history;
  view.descriptors[slot] = next;
  view.amax[next.amax_index] = image == nullptr ? 0 : image->amax_bits;
  if (view.held != nullptr) {
    view.held[next.amax_index] = image == nullptr ? 0 : image->held_bits;
  }
  view.non_finite_steps[slot] = image == nullptr ? 0 : image->non_finite_steps;
  SetScale(view, slot, FloatFromBits(from.scale_bits));
  const bool as_new = delayed == nullptr ||
                      (next.use == SlotUse::kDelayed && from.window.empty() &&
                       from.scale_bits == nothing.scale_bits);
  view.measure[slot] = (as_new ? measure_first : from.measure) ? 1 : 0;
  if (saved.format_max != next.format_max) {
    view.descriptors[slot] = saved;
    ChangeSlot(view, slot, next, /*remake_scale=*/true, measure_first);
  }
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
