// One step of delayed scaling, as functions over the arena: what a group sends,
// and what the reduced amax does to a slot.
//
// The rule for one slot (NVIDIA TransformerEngine's delayed scaling, with the
// choices that systems differ in named):
//   1. the step is skipped for its group, or the slot is not `delayed` in this
//      phase: nothing changes, the observation is dropped;
//   2. reduced amax inf or NaN: the sticky flag is raised, then SKIP: nothing,
//      BACK_OFF: the scale is halved, FREEZE: pushed like any value;
//   3. reduced amax 0: not observed, nothing changes;
//   4. else pushed; a = maximum of the window (MAX) or the value pushed
//      (MOST_RECENT); if a is finite, scale = ScaleFromAmax(a) and the slot is
//      measured no more.
// scale_inv = 1 / scale always. Every formula is in numerics/scale.h.
//
// Control words after the amaxes of a message:
//   [0]     1 when a rank wants the step dropped: one rank drops it for all
//   [1, 2]  low and high half of h, a hash of step, phase and all scales
//   [3, 4]  the same of ~h
// After a max over ranks, [1, 2] equal h and [3, 4] equal ~h on a rank only if
// every rank sent the same h. Where they differ the ranks have drifted apart
// (one was restored, another step number, another scale): nothing is updated.
#ifndef SCALEKEEPER_AMAX_UPDATE_H_
#define SCALEKEEPER_AMAX_UPDATE_H_

#include <cstdint>

#include "amax/arena_view.h"
#include "amax/history.h"
#include "numerics/amax.h"
#include "numerics/host_device.h"
#include "numerics/scale.h"

namespace scalekeeper {

inline constexpr uint32_t kControlWords = 5;

// A bijection on 64 bits that spreads every input bit (the finalizer of
// SplitMix64).
SK_HOST_DEVICE inline uint64_t MixBits(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// What a slot adds to its group's scale_hash; sums do not depend on the order.
SK_HOST_DEVICE inline uint64_t ScaleHash(const ArenaView& arena,
                                         uint32_t slot) {
  const SlotDescriptor& d = arena.descriptors[slot];
  const uint64_t position =
      d.message_index - arena.group_descriptors[d.group].message_offset;
  return MixBits((position << 32) | BitsFromFloat(arena.scale[slot]));
}

// What all ranks of the group must agree on before an update.
SK_HOST_DEVICE inline uint64_t AgreementHash(const ArenaView& arena,
                                             uint32_t group) {
  const uint64_t step = static_cast<uint64_t>(arena.step->step);
  const uint64_t phase = static_cast<uint64_t>(arena.step->phase);
  return MixBits(arena.group_states[group].scale_hash +
                 MixBits(step + MixBits(phase)));
}

SK_HOST_DEVICE inline uint32_t* ControlWords(const ArenaView& arena,
                                             uint32_t group) {
  const GroupDescriptor& d = arena.group_descriptors[group];
  return arena.messages + d.message_offset + d.members;
}

SK_HOST_DEVICE inline void PackSlot(const ArenaView& arena, uint32_t slot) {
  const SlotDescriptor& d = arena.descriptors[slot];
  arena.messages[d.message_index] =
      d.enabled ? arena.amax[slot] & kFloatMagnitudeMask : 0;
}

SK_HOST_DEVICE inline void PackControl(const ArenaView& arena, uint32_t group,
                                       bool skip) {
  const uint64_t hash = AgreementHash(arena, group);
  uint32_t* control = ControlWords(arena, group);
  control[0] = skip ? 1 : 0;
  control[1] = static_cast<uint32_t>(hash);
  control[2] = static_cast<uint32_t>(hash >> 32);
  control[3] = ~control[1];
  control[4] = ~control[2];
}

SK_HOST_DEVICE inline bool RanksAgree(const ArenaView& arena, uint32_t group) {
  const uint64_t hash = AgreementHash(arena, group);
  const uint32_t low = static_cast<uint32_t>(hash);
  const uint32_t high = static_cast<uint32_t>(hash >> 32);
  const uint32_t* control = ControlWords(arena, group);
  return control[1] == low && control[2] == high && control[3] == ~low &&
         control[4] == ~high;
}

// Whether the group's reduced message, or this rank's own flag, drops the step.
SK_HOST_DEVICE inline bool StepSkipped(const ArenaView& arena, uint32_t group,
                                       bool skip) {
  return skip || ControlWords(arena, group)[0] != 0;
}

SK_HOST_DEVICE inline void SetScale(const ArenaView& arena, uint32_t slot,
                                    float scale) {
  arena.scale[slot] = scale;
  arena.scale_inv[slot] = ScaleInverse(scale);
}

// Rules 1 to 4 above; `skip` is StepSkipped of the slot's group. Keeps what
// UndoSlot needs and clears the observation.
SK_HOST_DEVICE inline void UpdateSlot(const ArenaView& arena, uint32_t slot,
                                      bool skip) {
  const SlotDescriptor& d = arena.descriptors[slot];
  SlotHistory& history = arena.histories[slot];
  const float scale = arena.scale[slot];
  SlotUndo undo;
  undo.scale = scale;
  undo.measure = arena.measure[slot];
  undo.cursor = history.cursor;
  undo.count = history.count;
  undo.non_finite_steps = history.non_finite_steps;

  const uint32_t reduced = arena.messages[d.message_index];
  bool push = d.enabled && !skip && reduced != 0;
  if (push && IsNonFiniteAmax(reduced)) {
    ++history.non_finite_steps;
    push = d.non_finite == NonFiniteAmax::kFreeze;
    if (d.non_finite == NonFiniteAmax::kBackOff) {
      SetScale(arena, slot, BackedOffScale(scale));
    }
  }
  if (push) {
    const RingView ring = RingOf(arena, d);
    uint32_t selected = reduced;
    if (d.algo == AmaxComputeAlgo::kMax) {
      const PushResult result = PushAndMax(ring, history, reduced);
      selected = result.window_max;
      undo.evicted = result.evicted;
    } else {
      undo.evicted = Push(ring, history, reduced);
    }
    if (!IsNonFiniteAmax(selected)) {
      SetScale(arena, slot,
               ScaleFromAmax(FloatFromBits(selected), d.format_max, d.margin));
      arena.measure[slot] = 0;
    }
  }
  arena.undo[slot] = undo;
  arena.amax[slot] = 0;
}

// Back to before the last UpdateSlot; drops what was observed since.
SK_HOST_DEVICE inline void UndoSlot(const ArenaView& arena, uint32_t slot) {
  const SlotUndo& undo = arena.undo[slot];
  SlotHistory& history = arena.histories[slot];
  const RingView ring = RingOf(arena, arena.descriptors[slot]);
  const bool pushed =
      history.cursor != undo.cursor || history.count != undo.count;
  // With N = 1 a push moves neither, but then `evicted` is not 0.
  if (pushed || undo.evicted != 0) ring.at(undo.cursor) = undo.evicted;
  history.cursor = undo.cursor;
  history.count = undo.count;
  history.non_finite_steps = undo.non_finite_steps;
  RebuildMaxima(ring, history);
  SetScale(arena, slot, undo.scale);
  arena.measure[slot] = undo.measure;
  arena.amax[slot] = 0;
}

// Gives a slot another descriptor, at a change of phase. `spare_ring` is where
// a window of another length goes (words, as SlotDescriptor::ring_offset), so
// that the old one stays whole; `remake_scale`: the format changed.
//   * another length: the newest entries are kept;
//   * another format: the scale is made anew from the window, when that has a
//     finite maximum (or newest entry); else it stays and `measure_first` says
//     whether tensors are measured until the next update;
//   * an empty window: `measure_first` decides as at the beginning;
//   * margin, algorithm and group: from the next update on.
SK_HOST_DEVICE inline void ChangeSlot(const ArenaView& arena, uint32_t slot,
                                      const SlotDescriptor& next,
                                      bool remake_scale, bool measure_first) {
  SlotHistory& history = arena.histories[slot];
  const RingView old_ring = RingOf(arena, arena.descriptors[slot]);
  arena.descriptors[slot] = next;
  if (!next.enabled) return;
  const RingView ring = RingOf(arena, next);
  if (ring.words != old_ring.words) {
    history =
        CopyNewest(old_ring, history, ring, FirstPosition(slot, ring.len));
  }
  RebuildMaxima(ring, history);
  uint32_t selected = 0;
  if (history.count != 0) {
    selected = next.algo == AmaxComputeAlgo::kMax
                   ? ScanMax(ring, history)
                   : ring.at(PositionOfAge(ring, history, 0));
  }
  const bool usable = selected != 0 && !IsNonFiniteAmax(selected);
  if (remake_scale && usable) {
    SetScale(
        arena, slot,
        ScaleFromAmax(FloatFromBits(selected), next.format_max, next.margin));
    arena.measure[slot] = 0;
  } else if (history.count == 0 || remake_scale) {
    arena.measure[slot] = measure_first ? 1 : 0;
  }
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_UPDATE_H_
