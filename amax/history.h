// The amax window: a ring whose exact maximum costs the same whatever falls and
// however long the window is.
//
// A plain ring needs N loads whenever the value that leaves was the maximum.
// Here the ring is cut into two halves, of ceil(N / 2) and floor(N / 2)
// entries. While the write position h is in one half, the window consists of
//   * the entries of this half before h, written in this lap: a running maximum
//     (prefix_max);
//   * the entries of this half after h, written in the last lap and the next to
//     leave: suffix maxima, which were made while h was in the other half;
//   * the other half, which does not change meanwhile: others_max, the
//     prefix_max with which h left it.
// So window maximum = max(prefix_max, suffix_max(h + 1), others_max). Meanwhile
// each push makes one suffix maximum of the other half, from its end towards
// its beginning, and stores it where this half's has become useless: position
// p's word is number min(p, N - 1 - p) of ceil(N / 2).
//
// A push therefore loads three words and stores two, whatever N and the values
// are. Their addresses do not depend on the value that is pushed, and
// SlotHistory keeps what the next push needs (`next_...`): the loads of a push
// are for the one after it, so that a GPU never waits for them before it knows
// the scale.
//
// Values are amax bits (numerics/amax.h), compared as uint32; infinities and
// NaNs are values like others here. A window that is not full yet uses what it
// holds; words that were never written are never read, so a ring needs no
// initialization. The first position may be any (a ring has no beginning).
//
// The maxima are derived data: RebuildMaxima makes them from the ring, the
// cursor and the count.
//
// Example:
//   RingView ring{words, /*len=*/16};  // RingWords(16) words
//   SlotHistory history;
//   uint32_t max = PushAndMax(ring, history, AmaxBits(3.0f)).window_max;
#ifndef SCALEKEEPER_AMAX_HISTORY_H_
#define SCALEKEEPER_AMAX_HISTORY_H_

#include <cstddef>
#include <cstdint>

#include "amax/arena_view.h"
#include "numerics/amax.h"
#include "numerics/host_device.h"

namespace scalekeeper {

// Words of a slot's ring for windows of up to `capacity` >= 1 entries: the
// entries, then the suffix maxima.
SK_HOST_DEVICE inline uint64_t RingWords(uint32_t capacity) {
  return uint64_t{capacity} + (uint64_t{capacity} + 1) / 2;
}

// Where a slot's ring begins. Warps of 32 slots begin one after another, so
// that they touch different lines of memory.
SK_HOST_DEVICE inline uint32_t FirstPosition(uint32_t slot, uint32_t len) {
  return (slot / 32) % len;
}

struct RingView {
  uint32_t* words = nullptr;  // RingWords(N), each kRingStride words apart
  uint32_t len = 1;           // N

  // Of the first half; the second one holds the rest.
  SK_HOST_DEVICE uint32_t half() const { return len - len / 2; }
  SK_HOST_DEVICE uint32_t& at(uint32_t position) const {
    return words[size_t{position} * kRingStride];
  }
  // Of the entries from `position` to the end of its half.
  SK_HOST_DEVICE uint32_t& suffix_max(uint32_t position) const {
    const uint32_t mirrored = len - 1 - position;
    return at(len + (position < mirrored ? position : mirrored));
  }
  SK_HOST_DEVICE bool BeginsHalf(uint32_t position) const {
    return position == 0 || position == half();
  }
  // One past the last position of the half that holds `position`.
  SK_HOST_DEVICE uint32_t HalfEnd(uint32_t position) const {
    return position < half() ? half() : len;
  }
  SK_HOST_DEVICE uint32_t After(uint32_t position) const {
    return position + 1 == len ? 0 : position + 1;
  }
  // The position of the other half whose suffix maximum a push at `position`
  // makes. 0: none (nobody reads that of a half's first position).
  SK_HOST_DEVICE uint32_t MadeAt(uint32_t position) const {
    if (position >= half()) return 2 * half() - 1 - position;
    const uint32_t made = len - 1 - position;
    return made > half() ? made : 0;
  }
};

SK_HOST_DEVICE inline RingView RingOf(const ArenaView& arena,
                                      const SlotDescriptor& slot) {
  return {arena.rings + slot.ring_offset, slot.history_len};
}

// The position of the entry that is `age` pushes old (0: the newest), age < N.
SK_HOST_DEVICE inline uint32_t PositionOfAge(const RingView& ring,
                                             const SlotHistory& history,
                                             uint32_t age) {
  const uint32_t back = age + 1;
  return history.cursor >= back ? history.cursor - back
                                : history.cursor + ring.len - back;
}

// Whether the window holds the entry at `position`.
SK_HOST_DEVICE inline bool Holds(const RingView& ring,
                                 const SlotHistory& history,
                                 uint32_t position) {
  const uint32_t age = position < history.cursor
                           ? history.cursor - position - 1
                           : history.cursor + ring.len - position - 1;
  return age < history.count;
}

// The entry at `position`, or 0 (neutral for max) when the window does not hold
// it yet.
SK_HOST_DEVICE inline uint32_t HeldEntry(const RingView& ring,
                                         const SlotHistory& history,
                                         uint32_t position) {
  return Holds(ring, history, position) ? ring.at(position) : 0;
}

// Writes at the cursor and moves it; keeps no maxima.
SK_HOST_DEVICE inline void Push(const RingView& ring, SlotHistory& history,
                                uint32_t amax_bits) {
  ring.at(history.cursor) = amax_bits;
  history.cursor = ring.After(history.cursor);
  if (history.count < ring.len) ++history.count;
}

// The three words that the push after the next one needs, as they are before
// the next one.
struct PushPlan {
  uint32_t evicted = 0;
  uint32_t suffix_max = 0;
  uint32_t entry = 0;
};

namespace internal {

// Which words a push at the history's cursor needs; 0 stands for what is not
// held. `pushed` is the position of the last push, whose words (the entry
// itself, the suffix maximum that it made) the caller has: they are not loaded.
// None: `pushed` = ring.len.
SK_HOST_DEVICE inline PushPlan LoadPlan(const RingView& ring,
                                        const SlotHistory& history,
                                        uint32_t pushed) {
  const uint32_t position = history.cursor;
  const uint32_t end = ring.HalfEnd(position);
  const uint32_t made = ring.MadeAt(position);
  const uint32_t just_made = pushed < ring.len ? ring.MadeAt(pushed) : 0;
  PushPlan plan;
  if (history.count == ring.len && position != pushed) {
    plan.evicted = ring.at(position);
  }
  // The last entry of a half is the newest: where that is not held, none is.
  if (position + 1 < end && Holds(ring, history, end - 1) &&
      position + 1 != just_made) {
    plan.suffix_max = ring.suffix_max(position + 1);
  }
  if (made != 0 && made != pushed) plan.entry = HeldEntry(ring, history, made);
  return plan;
}

}  // namespace internal

// Loads what PushPlanned needs besides the value and the history, so that a
// kernel has it in flight while it waits for the value. Good until the slot's
// ring or history changes.
SK_HOST_DEVICE inline PushPlan PlanPush(const RingView& ring,
                                        const SlotHistory& history) {
  SlotHistory after;
  after.cursor = ring.After(history.cursor);
  after.count = history.count < ring.len ? history.count + 1 : ring.len;
  return internal::LoadPlan(ring, after, history.cursor);
}

// The exact maximum of the window after `amax_bits` is pushed. Loads nothing.
SK_HOST_DEVICE inline uint32_t WindowMaxAfter(const RingView& ring,
                                              const SlotHistory& history,
                                              uint32_t amax_bits) {
  if (ring.len == 1) return amax_bits;
  // At the beginning of a half prefix_max is still that of the other one.
  const uint32_t others =
      ring.BeginsHalf(history.cursor) ? 0 : history.others_max;
  return MaxBits(MaxBits(amax_bits, history.next_suffix_max),
                 MaxBits(history.prefix_max, others));
}

// Pushes. The maxima must be those of the ring: kept by pushes or made by
// RebuildMaxima.
SK_HOST_DEVICE inline void PushPlanned(const RingView& ring,
                                       const PushPlan& plan,
                                       SlotHistory& history,
                                       uint32_t amax_bits) {
  const uint32_t position = history.cursor;
  if (ring.BeginsHalf(position)) {
    history.others_max = history.prefix_max;
    history.prefix_max = 0;
    history.made_max = 0;
  }
  const uint32_t made = ring.MadeAt(position);
  if (made != 0) {
    history.made_max = MaxBits(history.made_max, history.next_entry);
    ring.suffix_max(made) = history.made_max;
  }
  Push(ring, history, amax_bits);
  history.prefix_max = MaxBits(history.prefix_max, amax_bits);
  const uint32_t next = history.cursor;
  history.next_evicted = next == position ? amax_bits : plan.evicted;
  history.next_suffix_max =
      made != 0 && made == next + 1 ? history.made_max : plan.suffix_max;
  history.next_entry =
      ring.MadeAt(next) == position && position != 0 ? amax_bits : plan.entry;
}

struct PushResult {
  uint32_t window_max;
  uint32_t evicted;
};

// Push, and the exact maximum of the window afterwards.
SK_HOST_DEVICE inline PushResult PushAndMax(const RingView& ring,
                                            SlotHistory& history,
                                            uint32_t amax_bits) {
  const PushResult result = {WindowMaxAfter(ring, history, amax_bits),
                             history.next_evicted};
  PushPlanned(ring, PlanPush(ring, history), history, amax_bits);
  return result;
}

// Makes all that is derived from the ring, the cursor and the count. N loads.
SK_HOST_DEVICE inline void RebuildMaxima(const RingView& ring,
                                         SlotHistory& history) {
  const uint32_t cursor = history.cursor;
  const bool first_half = cursor < ring.half();
  const uint32_t begin = first_half ? 0 : ring.half();
  const uint32_t other_begin = first_half ? ring.half() : 0;
  const uint32_t other_end = first_half ? ring.len : ring.half();
  history.prefix_max = 0;
  history.others_max = 0;
  history.made_max = 0;
  for (uint32_t p = begin; p < cursor; ++p) {
    history.prefix_max =
        MaxBits(history.prefix_max, HeldEntry(ring, history, p));
  }
  for (uint32_t p = other_begin; p < other_end; ++p) {
    history.others_max =
        MaxBits(history.others_max, HeldEntry(ring, history, p));
  }
  // The next push begins a half and takes prefix_max for the other one's.
  if (cursor == begin) history.prefix_max = history.others_max;
  uint32_t suffix = 0;
  for (uint32_t p = ring.HalfEnd(cursor); --p > cursor;) {
    suffix = MaxBits(suffix, HeldEntry(ring, history, p));
    ring.suffix_max(p) = suffix;
  }
  for (uint32_t p = begin; p < cursor; ++p) {
    const uint32_t made = ring.MadeAt(p);
    if (made == 0) continue;
    history.made_max =
        MaxBits(history.made_max, HeldEntry(ring, history, made));
    ring.suffix_max(made) = history.made_max;
  }
  const PushPlan next = internal::LoadPlan(ring, history, ring.len);
  history.next_evicted = next.evicted;
  history.next_suffix_max = next.suffix_max;
  history.next_entry = next.entry;
}

// The maximum of what the window holds, from the ring itself. N loads.
SK_HOST_DEVICE inline uint32_t ScanMax(const RingView& ring,
                                       const SlotHistory& history) {
  uint32_t max = 0;
  for (uint32_t age = 0; age < history.count; ++age) {
    max = MaxBits(max, ring.at(PositionOfAge(ring, history, age)));
  }
  return max;
}

// Copies the newest entries of `from` into `to`, another ring (other memory,
// any length) that starts at position `start`. The maxima of `to` are not made.
SK_HOST_DEVICE inline SlotHistory CopyNewest(const RingView& from,
                                             const SlotHistory& history,
                                             const RingView& to,
                                             uint32_t start) {
  SlotHistory copy = history;
  copy.cursor = start;
  copy.count = 0;
  const uint32_t kept = history.count < to.len ? history.count : to.len;
  for (uint32_t age = kept; age-- > 0;) {
    Push(to, copy, from.at(PositionOfAge(from, history, age)));
  }
  return copy;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_HISTORY_H_
