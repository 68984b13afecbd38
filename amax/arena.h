// Arena: one allocation for all amax state, cut into contiguous sections.
//
// Sections, each aligned to 256 bytes: amax, held amax (where asked for),
// scale, scale_inv, measure, descriptors, histories, flags, undo records,
// groups, step, messages, rings (with their maxima). Addresses never move while
// the Arena lives. In host memory everything but the rings is initialized
// (zero; scale and scale_inv 1); ring words are read only after they were
// written.
//
// Two arenas of one layout differ in nothing but where they lie: a state on a
// GPU keeps a second one in host memory, on which everything that is not a step
// is done, between CopyFrom and CopyFrom.
//
// A slot whose window length differs between phases has two rings, so that a
// change of phase leaves the old window whole (it can be undone).
//
// Cost per slot: about 130 bytes, plus 6 N for the ring and its maxima; rings
// of each length are laid out for a multiple of 32 slots.
//
// Example:
//   SK_ASSIGN_OR_RETURN(Arena arena, Arena::Create(HostAllocator(), layout));
//   SlotDescriptor d = arena.Placement(slot);   // where its ring lies
#ifndef SCALEKEEPER_AMAX_ARENA_H_
#define SCALEKEEPER_AMAX_ARENA_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/arena_view.h"
#include "base/buffer.h"

namespace scalekeeper {

struct ArenaLayout {
  struct Slot {
    uint32_t capacity = 1;   // the longest window of all phases, >= 1
    bool two_rings = false;  // the length differs between phases
    uint32_t group = 0;      // in the first phase; slots are sorted by it
  };
  std::vector<Slot> slots;
  // Words per group's message, control words included, in the largest phase.
  std::vector<uint32_t> message_words;
  bool held = false;  // observations are held back for a step
};

class Arena {
 public:
  // ResourceExhausted, with the bytes asked for, when the allocator has none.
  // Memory of another device than the host is uninitialized.
  static absl::StatusOr<Arena> Create(Allocator* allocator,
                                      const ArenaLayout& layout);

  // kHead: everything but the rings.
  enum class Extent { kHead, kAll };
  // From an arena of the same layout, on the host or on this one's device.
  // Synchronizes.
  absl::Status CopyFrom(const Arena& source, Extent extent, Stream stream);

  const ArenaView& view() const { return view_; }
  size_t bytes() const { return buffer_.size(); }

  // A descriptor with only the places filled in (ring 0).
  const SlotDescriptor& Placement(uint32_t slot) const {
    return placements_[slot];
  }
  // ring_offset of the slot's ring 0 or 1.
  uint32_t RingOffset(uint32_t slot, int ring) const {
    return placements_[slot].ring_offset + (ring == 0 ? 0 : second_ring_[slot]);
  }
  uint32_t MessageOffset(uint32_t group) const {
    return group_placements_[group].message_offset;
  }
  // The group's places, without members.
  const GroupDescriptor& GroupPlacement(uint32_t group) const {
    return group_placements_[group];
  }
  uint32_t FirstPhaseMembers(uint32_t group) const {
    const GroupDescriptor& place = group_placements_[group];
    return place.control_offset - place.amax_offset;
  }

 private:
  Arena() = default;

  Buffer buffer_;
  Device device_;
  size_t head_bytes_ = 0;
  ArenaView view_;
  std::vector<SlotDescriptor> placements_;
  std::vector<uint32_t> second_ring_;  // words from ring 0 to ring 1
  std::vector<GroupDescriptor> group_placements_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_ARENA_H_
