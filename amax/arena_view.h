// The arena as kernels see it: plain structs and pointers into one allocation.
//
// Nothing here owns memory or allocates, and no struct points at a host object,
// so that a CUDA kernel takes an ArenaView by value. amax/arena.h lays the
// sections out; amax/history.h and amax/update.h are the functions over them.
//
// Ring layout. A slot's window is a ring of `history_len` words. The rings of
// kRingStride slots of the same capacity lie together, position by position, so
// that a warp, whose slots write at the same position, touches one line of
// memory whatever the history length is:
//   word(p) = rings[ring_offset + p * kRingStride]
// Its maxima (amax/history.h) follow it the same way.
//
// Observations of a group: one word per slot that is in it in the first phase,
// in arena order, then kControlWords words (amax/update.h) that this rank
// brings to the next exchange. Message of a group: the same for the slots that
// are in it in the active phase. Where both have the same slots the group is
// `direct`: its observations can be sent as they are.
#ifndef SCALEKEEPER_AMAX_ARENA_VIEW_H_
#define SCALEKEEPER_AMAX_ARENA_VIEW_H_

#include <cstdint>

#include "numerics/host_device.h"
#include "recipe/policy.h"

namespace scalekeeper {

// Slots whose rings lie together: a warp of a GPU.
inline constexpr uint32_t kRingStride = 32;

enum class SlotUse : uint8_t {
  kNone,
  kDelayed,  // has a window and a scale
  kWatched,  // `current`: only a non-finite amax counts
};

// What a slot does in the active phase. Written by copies from the host alone,
// never by a kernel.
struct alignas(16) SlotDescriptor {
  uint32_t ring_offset = 0;       // words, of ring position 0
  uint32_t history_len = 1;       // N
  uint32_t amax_index = 0;        // words, into amax
  uint32_t message_index = 0;     // words, into messages
  uint32_t message_position = 0;  // words, into its group's message
  uint32_t group = 0;             // index into groups
  float format_max = 0;
  uint8_t margin = 0;
  // Enumerations in a byte each.
  uint8_t algo_value = static_cast<uint8_t>(AmaxComputeAlgo::kMax);
  uint8_t non_finite_value = static_cast<uint8_t>(NonFiniteAmax::kSkip);
  SlotUse use = SlotUse::kNone;

  SK_HOST_DEVICE AmaxComputeAlgo algo() const {
    return static_cast<AmaxComputeAlgo>(algo_value);
  }
  SK_HOST_DEVICE NonFiniteAmax non_finite() const {
    return static_cast<NonFiniteAmax>(non_finite_value);
  }
};
static_assert(sizeof(SlotDescriptor) == 32, "two loads of a GPU thread");

// A slot's window, besides the ring itself (amax/history.h).
struct alignas(16) SlotHistory {
  uint32_t cursor = 0;      // where the next push goes, 0..N-1
  uint32_t count = 0;       // entries held, 0..N
  uint32_t prefix_max = 0;  // of the current half's entries before the cursor
  uint32_t others_max = 0;  // of the other half's entries
  uint32_t made_max = 0;    // of those whose suffix maximum is made
  // What the next push needs of the ring.
  uint32_t next_evicted = 0;     // what it overwrites; 0: not full yet
  uint32_t next_suffix_max = 0;  // of the current half's entries behind it
  uint32_t next_entry = 0;       // the next one whose suffix maximum is made
};

// A slot before a completed step. There are two per slot: an update writes the
// one of its parity, so that a step that fails half-way leaves the other.
struct alignas(16) SlotUndo {
  enum : uint32_t {
    kPushed = 1,     // the update pushed
    kGrew = 2,       // and the window was not full
    kMeasured = 4,   // `measure` was set
    kNonFinite = 8,  // the update counted a non-finite amax
  };
  float scale = 1;
  uint32_t amax = 0;     // what this rank had observed
  uint32_t evicted = 0;  // what the push overwrote
  uint32_t flags = 0;
};

// Set at Freeze and at a change of phase.
struct GroupDescriptor {
  uint32_t message_offset = 0;  // words, into messages
  uint32_t members = 0;         // slots, in the active phase
  uint32_t amax_offset = 0;     // words, into amax, of its observations
  uint32_t control_offset = 0;  // words, into amax, of its control words
  uint32_t first_slot = 0;      // of the observations
  uint32_t direct = 0;
  uint32_t exchanged = 0;  // over a communicator, in EndStep
};

struct GroupState {
  uint64_t scale_hash = 0;      // of the members' scales (amax/update.h)
  uint32_t ranks_disagree = 0;  // sticky
  uint32_t skipped = 0;         // of the last update: 1 when it was dropped
};

struct StepState {
  int64_t step = 0;
  int64_t previous_step = 0;  // of the last completed update
  int64_t phase = 0;
  uint32_t sequence = 0;  // completed updates; modulo 2 which undo comes next
  uint32_t epoch = 0;     // completed exchanges of amax/fused_step_cuda.cu
  uint32_t layout = 0;    // counts changes of the groups' messages
  uint32_t applied = 0;   // of the last update: 0 when the ranks disagreed
  uint32_t failed = 0;    // sticky: an exchange was given up, nothing runs
  uint32_t skipped_steps = 0;
};

// Slots that one block of a GPU updates: all of them or none.
inline constexpr uint32_t kBlockSlots = 128;

struct ArenaView {
  uint32_t slots = 0;
  uint32_t groups = 0;

  uint32_t* amax = nullptr;  // bits observed since the last update
  // The same words, moved out of the way while they are reduced beside the next
  // step (HeldView); null where updates are not stale.
  uint32_t* held = nullptr;

  // One entry per slot.
  float* scale = nullptr;
  float* scale_inv = nullptr;
  uint32_t* measure = nullptr;
  SlotDescriptor* descriptors = nullptr;
  SlotHistory* histories = nullptr;
  uint32_t* non_finite_steps = nullptr;  // since ClearFlags
  SlotUndo* undo = nullptr;              // two: [parity * slots + slot]

  // One entry per group; the last one holds the slots that are not reduced.
  GroupDescriptor* group_descriptors = nullptr;
  GroupState* group_states = nullptr;

  // GPUs: per group, blocks that have finished the update (low 16 bits) and the
  // sum of their parts of scale_hash.
  uint64_t* arrivals = nullptr;
  // GPUs: per kBlockSlots slots, the sequence after their last update. Ahead of
  // `step` where a step failed half-way.
  uint32_t* block_sequences = nullptr;

  StepState* step = nullptr;
  uint32_t* kept_skip = nullptr;  // 1: a step since the last update is skipped
  uint32_t* messages = nullptr;
  uint32_t* rings = nullptr;
};

// The arena as reductions and updates see it: what they work on is what slots
// have observed, or what is held of it.
SK_HOST_DEVICE inline ArenaView HeldView(ArenaView arena) {
  if (arena.held != nullptr) arena.amax = arena.held;
  return arena;
}

inline constexpr uint32_t BlockCount(uint32_t slots) {
  return slots == 0 ? 1 : (slots - 1) / kBlockSlots + 1;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_ARENA_VIEW_H_
