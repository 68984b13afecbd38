// One step of delayed scaling, as functions over the arena: what a group sends,
// and what the reduced amax does to a slot.
//
// The rule for one slot (NVIDIA TransformerEngine's delayed scaling, with the
// choices that systems differ in named):
//   1. the step is skipped for its group, or the slot is not `delayed` in this
//      phase: nothing changes, the observation is dropped (but a slot with
//      `current` scaling raises its sticky flag on inf or NaN);
//   2. reduced amax inf or NaN: the sticky flag is raised, then SKIP: nothing,
//      BACK_OFF: the scale is halved, FREEZE: pushed like any value;
//   3. reduced amax 0: not observed, nothing changes;
//   4. else pushed; a = maximum of the window (MAX) or the value pushed
//      (MOST_RECENT); if a is finite, scale = ScaleFromAmax(a) and the slot is
//      measured no more.
// scale_inv = 1 / scale always. Every formula is in numerics/scale.h.
//
// Stale updates (the recipe's update.staleness) work on a HeldView: HoldSlot
// moves the observations there, so that the slots observe on meanwhile. With
// update.interval, steps without an update only count.
//
// Control words after the amaxes of a message:
//   [0]     1 when a rank wants the step dropped: one rank drops it for all
//   [1, 2]  low and high half of h, a hash of step, phase and all scales; a
//           rank keeps its own behind its observations (PrepareControl)
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

// scale_hash is a sum of 48 bits: a GPU adds a block's part and counts the
// block in one atomic.
inline constexpr uint64_t kScaleHashMask = (uint64_t{1} << 48) - 1;

// What a slot at `position` of its group's message adds to scale_hash.
SK_HOST_DEVICE inline uint64_t ScaleHash(uint32_t position, float scale) {
  return MixBits((uint64_t{position} << 32) | BitsFromFloat(scale)) &
         kScaleHashMask;
}

// What all ranks of the group must agree on before an update.
SK_HOST_DEVICE inline uint64_t AgreementHash(uint64_t scale_hash, int64_t step,
                                             int64_t phase) {
  return MixBits(scale_hash + MixBits(static_cast<uint64_t>(step) +
                                      MixBits(static_cast<uint64_t>(phase))));
}

// The control words that this rank brings to the next exchange.
SK_HOST_DEVICE inline uint32_t* OwnControl(const ArenaView& arena,
                                           uint32_t group) {
  return arena.amax + arena.group_descriptors[group].control_offset;
}

// Those of the group's message.
SK_HOST_DEVICE inline uint32_t* ControlWords(const ArenaView& arena,
                                             uint32_t group) {
  const GroupDescriptor& d = arena.group_descriptors[group];
  return arena.messages + d.message_offset + d.members;
}

// `own` is OwnControl of the group.
SK_HOST_DEVICE inline void WriteControl(uint32_t* own, uint64_t scale_hash,
                                        int64_t step, int64_t phase) {
  const uint64_t hash = AgreementHash(scale_hash, step, phase);
  own[0] = 0;
  own[1] = static_cast<uint32_t>(hash);
  own[2] = static_cast<uint32_t>(hash >> 32);
  own[3] = ~static_cast<uint32_t>(hash);
  own[4] = ~static_cast<uint32_t>(hash >> 32);
}

// After every change of scales, step or phase.
SK_HOST_DEVICE inline void PrepareControl(const ArenaView& arena,
                                          uint32_t group, uint64_t scale_hash,
                                          int64_t step, int64_t phase) {
  WriteControl(OwnControl(arena, group), scale_hash, step, phase);
}

SK_HOST_DEVICE inline void PackSlot(const ArenaView& arena, uint32_t slot) {
  const SlotDescriptor& d = arena.descriptors[slot];
  arena.messages[d.message_index] =
      d.use == SlotUse::kNone ? 0
                              : arena.amax[d.amax_index] & kFloatMagnitudeMask;
}

SK_HOST_DEVICE inline void PackControl(const ArenaView& arena, uint32_t group,
                                       bool skip) {
  const uint32_t* own = OwnControl(arena, group);
  uint32_t* control = ControlWords(arena, group);
  control[0] = skip || own[0] != 0 ? 1 : 0;
  for (int i = 1; i < 5; ++i) control[i] = own[i];
}

// `arena` is not a HeldView. What is held is 0 before, but after an update that
// the ranks' disagreement prevented.
SK_HOST_DEVICE inline void HoldSlot(const ArenaView& arena, uint32_t slot) {
  const uint32_t i = arena.descriptors[slot].amax_index;
  if (arena.amax[i] == 0) return;
  arena.held[i] = MaxBits(arena.held[i], arena.amax[i]);
  arena.amax[i] = 0;
}

SK_HOST_DEVICE inline void HoldControl(const ArenaView& arena, uint32_t group,
                                       bool skip) {
  OwnControl(HeldView(arena), group)[0] = skip ? 1 : 0;
}

// At the end of a step without an update, before the step moves on.
SK_HOST_DEVICE inline void CountControl(const ArenaView& arena,
                                        uint32_t group) {
  PrepareControl(arena, group, arena.group_states[group].scale_hash,
                 arena.step->step + 1, arena.step->phase);
}

// `own` is OwnControl, `control` ControlWords of the group.
SK_HOST_DEVICE inline bool RanksAgree(const uint32_t* own,
                                      const uint32_t* control) {
  bool agree = true;
  for (int i = 1; i < 5; ++i) agree = (control[i] == own[i]) & agree;
  return agree;
}

SK_HOST_DEVICE inline void SetScale(const ArenaView& arena, uint32_t slot,
                                    float scale) {
  arena.scale[slot] = scale;
  arena.scale_inv[slot] = ScaleInverse(scale);
}

// A slot before an update. Kernels load it in three rounds: the descriptor,
// which needs nothing but the slot's index and may be loaded ahead of time;
// LoadSlot, which needs nothing either; PlanSlot, which is needed last.
struct SlotWork {
  SlotDescriptor descriptor;
  SlotHistory history;
  PushPlan plan;
  float scale = 1;
  uint32_t measure = 0;
  uint32_t amax = 0;  // this rank's
};

// Everything but descriptor, plan and amax.
SK_HOST_DEVICE inline void LoadSlot(const ArenaView& arena, uint32_t slot,
                                    SlotWork* work) {
  work->history = arena.histories[slot];
  work->scale = arena.scale[slot];
  work->measure = arena.measure[slot];
}

SK_HOST_DEVICE inline void PlanSlot(const ArenaView& arena, SlotWork* work) {
  if (work->descriptor.use != SlotUse::kDelayed) return;
  work->plan = PlanPush(RingOf(arena, work->descriptor), work->history);
}

SK_HOST_DEVICE inline SlotUndo& UndoRecord(const ArenaView& arena,
                                           uint32_t slot, uint32_t sequence) {
  return arena.undo[uint64_t{sequence & 1} * arena.slots + slot];
}

// What an update makes of a slot.
struct SlotDecision {
  float scale = 1;
  uint32_t undo_flags = 0;  // SlotUndo; kPushed: `reduced` is to be pushed
  bool measured = false;    // the slot is measured no more
};

// Rules 1 to 4 above; `skip`: the step is dropped for the slot's group. Neither
// loads nor stores, and does not need the plan.
SK_HOST_DEVICE inline SlotDecision DecideSlot(const SlotWork& work,
                                              uint32_t reduced, bool skip) {
  const SlotDescriptor& d = work.descriptor;
  SlotDecision decision;
  decision.scale = work.scale;
  if (work.measure != 0) decision.undo_flags |= SlotUndo::kMeasured;
  if (d.use == SlotUse::kNone || skip || reduced == 0) return decision;
  bool push = d.use == SlotUse::kDelayed;
  if (IsNonFiniteAmax(reduced)) {
    decision.undo_flags |= SlotUndo::kNonFinite;
    if (push && d.non_finite() == NonFiniteAmax::kBackOff) {
      decision.scale = BackedOffScale(work.scale);
    }
    push = push && d.non_finite() == NonFiniteAmax::kFreeze;
  }
  if (!push) return decision;
  decision.undo_flags |= SlotUndo::kPushed;
  if (work.history.count != d.history_len) {
    decision.undo_flags |= SlotUndo::kGrew;
  }
  RingView ring;
  ring.len = d.history_len;
  const uint32_t selected = d.algo() == AmaxComputeAlgo::kMax
                                ? WindowMaxAfter(ring, work.history, reduced)
                                : reduced;
  if (!IsNonFiniteAmax(selected)) {
    decision.scale =
        ScaleFromAmax(FloatFromBits(selected), d.format_max, d.margin);
    decision.measured = work.measure != 0;
  }
  return decision;
}

// Writes what was decided, keeps what UndoSlot needs and clears the
// observation. `sequence` is that before the update.
SK_HOST_DEVICE inline void StoreSlot(const ArenaView& arena, uint32_t slot,
                                     const SlotWork& work,
                                     const SlotDecision& decision,
                                     uint32_t reduced, uint32_t sequence) {
  SlotUndo undo;
  undo.scale = work.scale;
  undo.amax = work.amax;
  undo.flags = decision.undo_flags;
  if (undo.flags & SlotUndo::kPushed) undo.evicted = work.history.next_evicted;
  UndoRecord(arena, slot, sequence) = undo;
  if (BitsFromFloat(decision.scale) != BitsFromFloat(work.scale)) {
    SetScale(arena, slot, decision.scale);
  }
  if (decision.measured) arena.measure[slot] = 0;
  if (work.amax != 0) arena.amax[work.descriptor.amax_index] = 0;
  if (undo.flags & SlotUndo::kNonFinite) ++arena.non_finite_steps[slot];
  if (undo.flags & SlotUndo::kPushed) {
    SlotHistory history = work.history;
    PushPlanned(RingOf(arena, work.descriptor), work.plan, history, reduced);
    arena.histories[slot] = history;
  }
}

// Back to before the update that began at `sequence`, the last one that changed
// the slot. `amax` is what the slot has observed then: 0 drops it.
SK_HOST_DEVICE inline void UndoSlot(const ArenaView& arena, uint32_t slot,
                                    uint32_t sequence, uint32_t amax) {
  const SlotUndo& undo = UndoRecord(arena, slot, sequence);
  const SlotDescriptor& d = arena.descriptors[slot];
  if (undo.flags & SlotUndo::kPushed) {
    const RingView ring = RingOf(arena, d);
    SlotHistory& history = arena.histories[slot];
    history.cursor = (history.cursor == 0 ? ring.len : history.cursor) - 1;
    if (undo.flags & SlotUndo::kGrew) --history.count;
    ring.at(history.cursor) = undo.evicted;
    RebuildMaxima(ring, history);
  }
  if (undo.flags & SlotUndo::kNonFinite) --arena.non_finite_steps[slot];
  SetScale(arena, slot, undo.scale);
  arena.measure[slot] = undo.flags & SlotUndo::kMeasured ? 1 : 0;
  arena.amax[d.amax_index] = amax;
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
  if (next.use != SlotUse::kDelayed) return;
  const RingView ring = RingOf(arena, next);
  if (ring.words != old_ring.words) {
    history =
        CopyNewest(old_ring, history, ring, FirstPosition(slot, ring.len));
  }
  RebuildMaxima(ring, history);
  uint32_t selected = 0;
  if (history.count != 0) {
    selected = next.algo() == AmaxComputeAlgo::kMax
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
