// The amax window: a ring whose exact maximum costs the same whatever falls.
//
// A plain ring needs N loads whenever the value that leaves was the maximum.
// Here the ring is cut into chunks of B (a power of two near sqrt(N)) words.
// While the write position h is in chunk c, the window consists of
//   * the entries of c before h, written in this lap: a running maximum
//     (prefix_max);
//   * the entries of c from h on, written in the last lap and the next to
//     leave: suffix maxima, taken when h enters the chunk (old entries of a
//     chunk do not change until they are overwritten);
//   * all other chunks, which do not change while h is in c: others_max, taken
//     from one maximum per chunk when h enters the chunk.
// So window maximum = max(prefix_max, suffix_maxima[h + 1], others_max): three
// loads per push, and B + N / B loads once every B pushes, on rising, constant
// and falling amaxes alike. None of them depends on the value that is pushed
// (PlanPush), so a GPU has them in flight while it waits for other ranks.
//
// Values are amax bits (numerics/amax.h), compared as uint32; infinities and
// NaNs are values like others here. A window that is not full yet uses what it
// holds; ring words outside the held ones are never read, so a ring needs no
// initialization. The first position may be any (a ring has no beginning).
//
// The maxima are derived data: RebuildMaxima makes them from the ring, the
// cursor and the count.
//
// Example:
//   RingView ring{words, chunk_maxima, suffix_maxima, /*chunk_log2=*/2,
//                 /*len=*/16};
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

// log2 of the chunk size for a ring that can hold `capacity` >= 1 entries.
SK_HOST_DEVICE inline uint8_t ChunkLog2(uint32_t capacity) {
  uint8_t log2 = 0;
  while ((uint64_t{1} << (2 * (log2 + 1))) <= capacity) ++log2;
  return log2;
}

// ceil(len / B).
SK_HOST_DEVICE inline uint32_t ChunkCount(uint32_t len, uint32_t chunk_log2) {
  return ((len - 1) >> chunk_log2) + 1;
}

// Where a slot's ring begins. Warps of 32 slots begin one after another, so
// that they enter new chunks at different steps and no step costs much more
// than another.
SK_HOST_DEVICE inline uint32_t FirstPosition(uint32_t slot, uint32_t len) {
  return (slot / 32) % len;
}

struct RingView {
  // Each kRingStride words apart.
  uint32_t* words = nullptr;          // N
  uint32_t* chunk_maxima = nullptr;   // ChunkCount(N)
  uint32_t* suffix_maxima = nullptr;  // B
  uint32_t chunk_log2 = 0;
  uint32_t len = 1;  // N

  SK_HOST_DEVICE uint32_t chunk_mask() const { return (1u << chunk_log2) - 1u; }
  SK_HOST_DEVICE uint32_t& at(uint32_t position) const {
    return words[size_t{position} * kRingStride];
  }
  SK_HOST_DEVICE uint32_t& chunk_max(uint32_t chunk) const {
    return chunk_maxima[size_t{chunk} * kRingStride];
  }
  // Of the entries from `position` to the end of its chunk.
  SK_HOST_DEVICE uint32_t& suffix_max(uint32_t position) const {
    return suffix_maxima[size_t{position & chunk_mask()} * kRingStride];
  }
  // One past the last position of the chunk that holds `position`.
  SK_HOST_DEVICE uint32_t ChunkEnd(uint32_t position) const {
    const uint32_t end = (position | chunk_mask()) + 1;
    return end < len ? end : len;
  }
};

SK_HOST_DEVICE inline RingView RingOf(const ArenaView& arena,
                                      const SlotDescriptor& slot) {
  RingView ring;
  ring.words = arena.rings + slot.ring_offset;
  ring.chunk_log2 = slot.chunk_log2;
  ring.len = slot.history_len;
  ring.chunk_maxima = arena.chunk_maxima + slot.chunk_offset;
  ring.suffix_maxima = arena.suffix_maxima + slot.suffix_offset;
  return ring;
}

// The position of the entry that is `age` pushes old (0: the newest), age < N.
SK_HOST_DEVICE inline uint32_t PositionOfAge(const RingView& ring,
                                             const SlotHistory& history,
                                             uint32_t age) {
  const uint32_t back = age + 1;
  return history.cursor >= back ? history.cursor - back
                                : history.cursor + ring.len - back;
}

// The entry at `position`, or 0 (neutral for max) when the window does not hold
// it yet.
SK_HOST_DEVICE inline uint32_t HeldEntry(const RingView& ring,
                                         const SlotHistory& history,
                                         uint32_t position) {
  const uint32_t age = position < history.cursor
                           ? history.cursor - position - 1
                           : history.cursor + ring.len - position - 1;
  return age < history.count ? ring.at(position) : 0;
}

namespace internal {

// Loads that are in flight together on a GPU.
inline constexpr uint32_t kLoadsAtOnce = 16;

// The maximum of all chunks but the cursor's, `last_max` standing for that of
// chunk `last`. Reads chunk_maxima.
SK_HOST_DEVICE inline uint32_t OthersMax(const RingView& ring, uint32_t chunk,
                                         uint32_t last, uint32_t last_max) {
  const uint32_t chunks = ChunkCount(ring.len, ring.chunk_log2);
  uint32_t others = last == chunk ? 0 : last_max;
  for (uint32_t begin = 0; begin < chunks; begin += kLoadsAtOnce) {
    uint32_t loaded[kLoadsAtOnce];
    SK_UNROLL
    for (uint32_t i = 0; i < kLoadsAtOnce; ++i) {
      const uint32_t c = begin + i;
      const bool counts = c < chunks && c != chunk && c != last;
      loaded[i] = counts ? ring.chunk_max(c) : 0;
    }
    SK_UNROLL
    for (uint32_t i = 0; i < kLoadsAtOnce; ++i) {
      others = MaxBits(others, loaded[i]);
    }
  }
  return others;
}

// Fills suffix_maxima from the cursor to the end of its chunk. Returns the one
// after the cursor's, 0 when the cursor is at the chunk's last position.
SK_HOST_DEVICE inline uint32_t MakeSuffixMaxima(const RingView& ring,
                                                const SlotHistory& history) {
  const uint32_t cursor = history.cursor;
  uint32_t suffix = 0, after = 0;
  uint32_t end = ring.ChunkEnd(cursor);
  while (end > cursor) {
    const uint32_t rest = end - cursor;
    const uint32_t n = rest < kLoadsAtOnce ? rest : kLoadsAtOnce;
    uint32_t loaded[kLoadsAtOnce];
    SK_UNROLL
    for (uint32_t i = 0; i < kLoadsAtOnce; ++i) {
      loaded[i] = i < n ? HeldEntry(ring, history, end - 1 - i) : 0;
    }
    SK_UNROLL
    for (uint32_t i = 0; i < kLoadsAtOnce; ++i) {
      if (i >= n) continue;
      const uint32_t p = end - 1 - i;
      after = p == cursor ? suffix : after;
      suffix = MaxBits(suffix, loaded[i]);
      ring.suffix_max(p) = suffix;
    }
    end -= n;
  }
  return after;
}

// OthersMax and MakeSuffixMaxima where the cursor is at a chunk's beginning,
// for at most kMost chunks of at most kMost entries: all loads are in flight
// together. suffix_max of the cursor itself, which nobody reads, stays.
template <uint32_t kMost>
SK_HOST_DEVICE inline void EnterChunk(const RingView& ring,
                                      const SlotHistory& history, uint32_t last,
                                      uint32_t* others_max,
                                      uint32_t* suffix_max) {
  const uint32_t cursor = history.cursor;
  const uint32_t chunk = cursor >> ring.chunk_log2;
  const uint32_t chunks = ChunkCount(ring.len, ring.chunk_log2);
  const uint32_t n = ring.ChunkEnd(cursor) - cursor;
  uint32_t maxima[kMost], entries[kMost];
  SK_UNROLL
  for (uint32_t i = 0; i < kMost; ++i) {
    const bool counts = i < chunks && i != chunk && i != last;
    maxima[i] = counts ? ring.chunk_max(i) : 0;
  }
  SK_UNROLL
  for (uint32_t i = 1; i < kMost; ++i) {
    entries[i] = i < n ? HeldEntry(ring, history, cursor + i) : 0;
  }
  uint32_t others = last == chunk ? 0 : history.prefix_max;
  SK_UNROLL
  for (uint32_t i = 0; i < kMost; ++i) others = MaxBits(others, maxima[i]);
  uint32_t suffix = 0;
  SK_UNROLL
  for (uint32_t i = kMost - 1; i > 0; --i) {
    suffix = MaxBits(suffix, entries[i]);
    if (i < n) ring.suffix_max(cursor + i) = suffix;
  }
  *others_max = others;
  *suffix_max = suffix;
}

}  // namespace internal

// Writes at the cursor and moves it; keeps no maxima. Returns the word that was
// overwritten, 0 when the window was not full.
SK_HOST_DEVICE inline uint32_t Push(const RingView& ring, SlotHistory& history,
                                    uint32_t amax_bits) {
  uint32_t& word = ring.at(history.cursor);
  const uint32_t evicted = history.count == ring.len ? word : 0;
  word = amax_bits;
  history.cursor = history.cursor + 1 == ring.len ? 0 : history.cursor + 1;
  if (history.count < ring.len) ++history.count;
  return evicted;
}

// What a push needs besides the value, so that a kernel can load it while it
// waits for the value. Good until the slot's ring or history changes.
struct PushPlan {
  uint32_t evicted = 0;     // what will be overwritten; 0: not full yet
  uint32_t others_max = 0;  // of the other chunks
  uint32_t suffix_max = 0;  // of this chunk's entries after the cursor
  bool enters = false;      // the cursor is at the beginning of a chunk
};

SK_HOST_DEVICE inline PushPlan PlanPush(const RingView& ring,
                                        const SlotHistory& history) {
  const uint32_t position = history.cursor;
  PushPlan plan;
  plan.evicted = history.count == ring.len ? ring.at(position) : 0;
  plan.enters = (position & ring.chunk_mask()) == 0;
  if (plan.enters) {
    const uint32_t last = (position == 0 ? ring.len : position) - 1;
    const uint32_t last_chunk = last >> ring.chunk_log2;
    const uint32_t chunks = ChunkCount(ring.len, ring.chunk_log2);
    const uint32_t most =
        chunks > ring.chunk_mask() ? chunks : ring.chunk_mask() + 1;
    if (most <= 8) {
      internal::EnterChunk<8>(ring, history, last_chunk, &plan.others_max,
                              &plan.suffix_max);
    } else if (most <= 32) {
      internal::EnterChunk<32>(ring, history, last_chunk, &plan.others_max,
                               &plan.suffix_max);
    } else {
      plan.others_max = internal::OthersMax(ring, position >> ring.chunk_log2,
                                            last_chunk, history.prefix_max);
      plan.suffix_max = internal::MakeSuffixMaxima(ring, history);
    }
  } else {
    plan.others_max = history.others_max;
    plan.suffix_max = position + 1 < ring.ChunkEnd(position)
                          ? ring.suffix_max(position + 1)
                          : 0;
  }
  return plan;
}

// Pushes as planned; returns the exact maximum of the window afterwards. The
// maxima must be those of the ring: kept by pushes or made by RebuildMaxima.
SK_HOST_DEVICE inline uint32_t PushPlanned(const RingView& ring,
                                           const PushPlan& plan,
                                           SlotHistory& history,
                                           uint32_t amax_bits) {
  const uint32_t position = history.cursor;
  if (plan.enters) {  // the last chunk is complete
    const uint32_t last = (position == 0 ? ring.len : position) - 1;
    ring.chunk_max(last >> ring.chunk_log2) = history.prefix_max;
    history.prefix_max = 0;
    history.others_max = plan.others_max;
  }
  ring.at(position) = amax_bits;
  history.cursor = position + 1 == ring.len ? 0 : position + 1;
  if (history.count < ring.len) ++history.count;
  history.prefix_max = MaxBits(history.prefix_max, amax_bits);
  return MaxBits(MaxBits(history.prefix_max, plan.others_max), plan.suffix_max);
}

struct PushResult {
  uint32_t window_max;
  uint32_t evicted;
};

// Push, and the exact maximum of the window afterwards.
SK_HOST_DEVICE inline PushResult PushAndMax(const RingView& ring,
                                            SlotHistory& history,
                                            uint32_t amax_bits) {
  const PushPlan plan = PlanPush(ring, history);
  return {PushPlanned(ring, plan, history, amax_bits), plan.evicted};
}

// Makes all maxima from the ring. N loads.
SK_HOST_DEVICE inline void RebuildMaxima(const RingView& ring,
                                         SlotHistory& history) {
  for (uint32_t begin = 0; begin < ring.len; begin = ring.ChunkEnd(begin)) {
    uint32_t max = 0;
    for (uint32_t p = begin; p < ring.ChunkEnd(begin); ++p) {
      max = MaxBits(max, HeldEntry(ring, history, p));
    }
    ring.chunk_max(begin >> ring.chunk_log2) = max;
  }
  const uint32_t cursor = history.cursor;
  const uint32_t begin = cursor & ~ring.chunk_mask();
  const uint32_t last = (cursor == 0 ? ring.len : cursor) - 1;
  const uint32_t last_chunk = last >> ring.chunk_log2;
  if (cursor == begin) {  // the next push enters a chunk and stores prefix_max
    history.prefix_max = ring.chunk_max(last_chunk);
  } else {
    history.prefix_max = 0;
    for (uint32_t p = begin; p < cursor; ++p) {
      history.prefix_max =
          MaxBits(history.prefix_max, HeldEntry(ring, history, p));
    }
  }
  history.others_max = internal::OthersMax(
      ring, cursor >> ring.chunk_log2, last_chunk, ring.chunk_max(last_chunk));
  (void)internal::MakeSuffixMaxima(ring, history);
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
