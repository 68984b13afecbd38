#include "amax/arena.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "amax/history.h"
#include "amax/update.h"
#include "base/device_memory.h"

namespace scalekeeper {
namespace {

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Hands out sections one after another; the rings, which stay uninitialized,
// come last.
class Sections {
 public:
  template <typename T>
  size_t Add(uint64_t count) {
    const uint64_t offset = bytes_;
    const uint64_t size = count * sizeof(T);
    bytes_ += RoundUp(size, Allocator::kAlignment);
    return static_cast<size_t>(offset);
  }
  size_t bytes() const { return static_cast<size_t>(bytes_); }

 private:
  uint64_t bytes_ = 0;
};

// Rings of one class lie together, kRingStride of them at a time.
struct RingClass {
  uint32_t slots = 0;
  uint32_t next = 0;   // while places are handed out
  uint64_t words = 0;  // where it begins

  // Where the next slot's ring begins.
  uint32_t Place(uint32_t capacity) const {
    return static_cast<uint32_t>(
        words + next / kRingStride * kRingStride * RingWords(capacity) +
        next % kRingStride);
  }
};

}  // namespace

absl::StatusOr<Arena> Arena::Create(Allocator* allocator,
                                    const ArenaLayout& layout) {
  Arena arena;
  const uint32_t slots = static_cast<uint32_t>(layout.slots.size());
  const uint32_t groups = static_cast<uint32_t>(layout.message_words.size());

  std::map<std::pair<uint32_t, bool>, RingClass> classes;
  for (const ArenaLayout::Slot& slot : layout.slots) {
    ++classes[{slot.capacity, slot.two_rings}].slots;
  }
  uint64_t ring_words = 0;
  for (auto& [key, ring_class] : classes) {
    ring_class.words = ring_words;
    ring_words += RoundUp(ring_class.slots, kRingStride) *
                  RingWords(key.first) * (key.second ? 2 : 1);
  }
  if (ring_words > UINT32_MAX) {
    return absl::ResourceExhaustedError(absl::StrCat(
        slots, " slots need more than 2^32 words of amax history"));
  }

  arena.placements_.resize(slots);
  arena.second_ring_.resize(slots);
  for (uint32_t i = 0; i < slots; ++i) {
    const ArenaLayout::Slot& slot = layout.slots[i];
    RingClass& ring_class = classes[{slot.capacity, slot.two_rings}];
    arena.placements_[i].ring_offset = ring_class.Place(slot.capacity);
    if (slot.two_rings) {
      arena.second_ring_[i] = static_cast<uint32_t>(
          RoundUp(ring_class.slots, kRingStride) * RingWords(slot.capacity));
    }
    ++ring_class.next;
  }
  // Groups' messages begin at multiples of 16 bytes, as collectives like it.
  uint64_t message_words = 0, amax_words = 0;
  uint32_t next_slot = 0;
  for (uint32_t g = 0; g < groups; ++g) {
    GroupDescriptor place;
    place.message_offset = static_cast<uint32_t>(message_words);
    message_words += RoundUp(layout.message_words[g], 4);
    place.first_slot = next_slot;
    place.amax_offset = static_cast<uint32_t>(amax_words);
    for (; next_slot < slots && layout.slots[next_slot].group == g;
         ++next_slot) {
      arena.placements_[next_slot].amax_index =
          static_cast<uint32_t>(amax_words++);
    }
    place.control_offset = static_cast<uint32_t>(amax_words);
    amax_words = RoundUp(amax_words + kControlWords, 4);
    arena.group_placements_.push_back(place);
  }
  if (std::max(message_words, amax_words) > UINT32_MAX) {
    return absl::ResourceExhaustedError(
        absl::StrCat(slots, " slots need more than 2^32 words of messages"));
  }

  Sections sections;
  const size_t amax = sections.Add<uint32_t>(amax_words);
  const size_t held = sections.Add<uint32_t>(layout.held ? amax_words : 0);
  const size_t scale = sections.Add<float>(slots);
  const size_t scale_inv = sections.Add<float>(slots);
  const size_t measure = sections.Add<uint32_t>(slots);
  const size_t descriptors = sections.Add<SlotDescriptor>(slots);
  const size_t histories = sections.Add<SlotHistory>(slots);
  const size_t non_finite_steps = sections.Add<uint32_t>(slots);
  const size_t undo = sections.Add<SlotUndo>(uint64_t{slots} * 2);
  const size_t group_descriptors = sections.Add<GroupDescriptor>(groups);
  const size_t group_states = sections.Add<GroupState>(groups);
  const size_t arrivals = sections.Add<uint64_t>(groups);
  const size_t block_sequences = sections.Add<uint32_t>(BlockCount(slots));
  const size_t step = sections.Add<StepState>(1);
  const size_t kept_skip = sections.Add<uint32_t>(1);
  const size_t messages = sections.Add<uint32_t>(message_words);
  arena.head_bytes_ = sections.bytes();
  const size_t rings = sections.Add<uint32_t>(ring_words);

  absl::StatusOr<Buffer> buffer = Buffer::Allocate(allocator, sections.bytes());
  if (!buffer.ok()) {
    return absl::Status(
        buffer.status().code(),
        absl::StrCat("amax state of ", slots, " slots, ", sections.bytes(),
                     " bytes on ", Name(allocator->device()), ": ",
                     buffer.status().message()));
  }
  arena.buffer_ = *std::move(buffer);
  std::byte* base = arena.buffer_.as<std::byte>();
  ArenaView& view = arena.view_;
  const auto at = [&](size_t offset, auto*& pointer) {
    pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(base + offset);
  };
  view.slots = slots;
  view.groups = groups;
  at(amax, view.amax);
  if (layout.held) at(held, view.held);
  at(scale, view.scale);
  at(scale_inv, view.scale_inv);
  at(measure, view.measure);
  at(descriptors, view.descriptors);
  at(histories, view.histories);
  at(non_finite_steps, view.non_finite_steps);
  at(undo, view.undo);
  at(group_descriptors, view.group_descriptors);
  at(group_states, view.group_states);
  at(arrivals, view.arrivals);
  at(block_sequences, view.block_sequences);
  at(step, view.step);
  at(kept_skip, view.kept_skip);
  at(messages, view.messages);
  at(rings, view.rings);
  arena.device_ = allocator->device();
  if (arena.device_ != Device::Host()) return arena;
  std::memset(base, 0, arena.head_bytes_);
  std::fill_n(view.scale, slots, 1.0f);
  std::fill_n(view.scale_inv, slots, 1.0f);
  std::copy(arena.placements_.begin(), arena.placements_.end(),
            view.descriptors);
  return arena;
}

absl::Status Arena::CopyFrom(const Arena& source, Extent extent,
                             Stream stream) {
  const size_t bytes = extent == Extent::kAll ? buffer_.size() : head_bytes_;
  return device_ == Device::Host()
             ? CopyToHost(source.device_, buffer_.data(), source.buffer_.data(),
                          bytes, stream)
             : CopyFromHost(device_, buffer_.data(), source.buffer_.data(),
                            bytes, stream);
}

}  // namespace scalekeeper
