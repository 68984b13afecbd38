// A step that a GPU gave up half-way: some blocks updated their slots, others
// did not. Undone on the host, the state is wholly that before the step.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "amax/arena.h"
#include "amax/history.h"
#include "amax/kernels_host.h"
#include "amax/update.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

constexpr uint32_t kSlots = 3 * kBlockSlots - 5;

// One group of delayed slots with windows of several lengths.
class TornState {
 public:
  TornState() : arena_(Make()) {
    const ArenaView& view = arena_.view();
    GroupDescriptor& group = view.group_descriptors[0];
    group = arena_.GroupPlacement(0);
    group.members = kSlots;
    for (uint32_t i = 0; i < kSlots; ++i) {
      SlotDescriptor& d = view.descriptors[i];
      d = arena_.Placement(i);
      d.history_len = Length(i);
      d.message_position = i;
      d.message_index = group.message_offset + i;
      d.format_max = 448;
      d.use = SlotUse::kDelayed;
      view.measure[i] = i % 4 == 0 ? 1 : 0;
    }
    RehashScalesHost(view);
  }

  const ArenaView& view() const { return arena_.view(); }
  void Observe(uint32_t step) {
    for (uint32_t i = 0; i < kSlots; ++i) {
      const uint32_t bits = i % 11 == 10 && step % 2 == 1
                                ? 0x7FC00000u
                                : 0x3F800000u + (i * 7 + step * 131) * 4096;
      view().amax[view().descriptors[i].amax_index] = i % 5 == 4 ? 0 : bits;
    }
  }
  void Step(uint32_t step) {
    Observe(step);
    PackMessagesHost(view(), nullptr);
    UpdateSlotsHost(view(), nullptr);
    for (uint32_t b = 0; b < BlockCount(kSlots); ++b) {
      view().block_sequences[b] = view().step->sequence;
    }
  }
  // What the blocks of a kernel do before the step is given up.
  void Tear(const std::vector<uint32_t>& blocks) {
    const ArenaView& v = view();
    PackMessagesHost(v, nullptr);
    for (uint32_t block : blocks) {
      for (uint32_t i = block * kBlockSlots;
           i < std::min(kSlots, (block + 1) * kBlockSlots); ++i) {
        SlotWork work;
        work.descriptor = v.descriptors[i];
        LoadSlot(v, i, &work);
        PlanSlot(v, &work);
        work.amax = v.amax[work.descriptor.amax_index];
        const uint32_t reduced = v.messages[work.descriptor.message_index];
        StoreSlot(v, i, work, DecideSlot(work, reduced, /*skip=*/false),
                  reduced, v.step->sequence);
      }
      v.block_sequences[block] = v.step->sequence + 1;
      v.arrivals[0] += (uint64_t{12345} << 16) + 1;
    }
    v.step->failed = 1;
  }
  std::vector<uint32_t> Window(uint32_t slot) const {
    const RingView ring = RingOf(view(), view().descriptors[slot]);
    const SlotHistory& history = view().histories[slot];
    std::vector<uint32_t> words;
    for (uint32_t age = 0; age < history.count; ++age) {
      words.push_back(ring.at(PositionOfAge(ring, history, age)));
    }
    return words;
  }

 private:
  static uint32_t Length(uint32_t slot) {
    static constexpr uint32_t kLengths[] = {1, 2, 5, 16};
    return kLengths[slot % 4];
  }
  static Arena Make() {
    ArenaLayout layout;
    for (uint32_t i = 0; i < kSlots; ++i) layout.slots.push_back({Length(i)});
    layout.message_words = {kSlots + kControlWords};
    auto arena = Arena::Create(HostAllocator(), layout);
    EXPECT_THAT(arena, IsOk());
    return *std::move(arena);
  }

  Arena arena_;
};

void ExpectEqual(const TornState& torn, const TornState& whole) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    SCOPED_TRACE(i);
    const ArenaView& a = torn.view();
    const ArenaView& b = whole.view();
    ASSERT_EQ(a.scale[i], b.scale[i]);
    ASSERT_EQ(a.scale_inv[i], b.scale_inv[i]);
    ASSERT_EQ(a.measure[i], b.measure[i]);
    ASSERT_EQ(a.non_finite_steps[i], b.non_finite_steps[i]);
    ASSERT_EQ(a.amax[a.descriptors[i].amax_index],
              b.amax[b.descriptors[i].amax_index]);
    ASSERT_EQ(torn.Window(i), whole.Window(i));
  }
  EXPECT_EQ(torn.view().step->sequence, whole.view().step->sequence);
  EXPECT_EQ(torn.view().group_states[0].scale_hash,
            whole.view().group_states[0].scale_hash);
}

class RepairTest : public ::testing::TestWithParam<std::vector<uint32_t>> {};

INSTANTIATE_TEST_SUITE_P(Blocks, RepairTest,
                         ::testing::Values(std::vector<uint32_t>{},
                                           std::vector<uint32_t>{0},
                                           std::vector<uint32_t>{1},
                                           std::vector<uint32_t>{0, 2},
                                           std::vector<uint32_t>{0, 1, 2}));

TEST_P(RepairTest, ATornStepIsUndoneAndTheNextOneIsRight) {
  for (uint32_t before : {0u, 1u, 2u, 20u}) {
    SCOPED_TRACE(before);
    TornState torn, whole;
    for (uint32_t step = 0; step < before; ++step) {
      torn.Step(step);
      whole.Step(step);
    }
    torn.Observe(before);
    whole.Observe(before);
    torn.Tear(GetParam());
    // Observed after the kernel took the amaxes: kept beside what it took.
    torn.view().amax[torn.view().descriptors[0].amax_index] = 0x7F000000u;
    whole.view().amax[whole.view().descriptors[0].amax_index] = 0x7F000000u;

    RepairSlotsHost(torn.view());
    RehashScalesHost(torn.view());
    torn.view().step->failed = 0;
    ExpectEqual(torn, whole);
    EXPECT_EQ(torn.view().arrivals[0], 0u);
    for (uint32_t b = 0; b < BlockCount(kSlots); ++b) {
      EXPECT_EQ(torn.view().block_sequences[b], torn.view().step->sequence);
    }
    for (uint32_t step = before; step < before + 18; ++step) {
      torn.Step(step);
      whole.Step(step);
      ExpectEqual(torn, whole);
    }
  }
}

}  // namespace
}  // namespace scalekeeper
