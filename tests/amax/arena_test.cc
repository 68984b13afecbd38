#include "amax/arena.h"

#include <cstdint>
#include <cstring>

#include "amax/history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

ArenaLayout MixedLayout() {
  ArenaLayout layout;
  for (uint32_t i = 0; i < 200; ++i) {
    static constexpr uint32_t kCapacities[] = {1, 2, 3, 16, 17, 256, 1024};
    layout.slots.push_back({kCapacities[i * 5 % 7], i % 3 == 0});
  }
  layout.message_words = {105, 5, 105};
  return layout;
}

TEST(ArenaTest, NoTwoRingsShareAWord) {
  const ArenaLayout layout = MixedLayout();
  auto arena = Arena::Create(HostAllocator(), layout);
  ASSERT_THAT(arena, IsOk());
  const auto visit = [&](const auto& act) {
    uint32_t mark = 0;
    for (uint32_t i = 0; i < layout.slots.size(); ++i) {
      for (int ring = 0; ring < (layout.slots[i].two_rings ? 2 : 1); ++ring) {
        SlotDescriptor d = arena->Placement(i);
        d.ring_offset = arena->RingOffset(i, ring);
        d.history_len = layout.slots[i].capacity;
        const RingView view = RingOf(arena->view(), d);
        for (uint32_t p = 0; p < RingWords(d.history_len); ++p) {
          act(view.at(p), ++mark);
        }
      }
    }
  };
  visit([](uint32_t& word, uint32_t mark) { word = mark; });
  visit([](uint32_t& word, uint32_t mark) { ASSERT_EQ(word, mark); });
  // The rings are the last section, inside the allocation.
  const auto* last =
      reinterpret_cast<const std::byte*>(arena->view().amax) + arena->bytes();
  visit([&](uint32_t& word, uint32_t) {
    ASSERT_LE(reinterpret_cast<const std::byte*>(&word + 1), last);
  });
}

TEST(ArenaTest, SectionsAreAlignedApartAndInitialized) {
  const ArenaLayout layout = MixedLayout();
  auto arena = Arena::Create(HostAllocator(), layout);
  ASSERT_THAT(arena, IsOk());
  const ArenaView& view = arena->view();
  EXPECT_EQ(view.slots, 200u);
  EXPECT_EQ(view.groups, 3u);
  for (const void* section : {static_cast<const void*>(view.amax),
                              static_cast<const void*>(view.scale),
                              static_cast<const void*>(view.measure),
                              static_cast<const void*>(view.messages),
                              static_cast<const void*>(view.rings)}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(section) % Allocator::kAlignment, 0u);
  }
  EXPECT_GE(reinterpret_cast<const std::byte*>(view.scale),
            reinterpret_cast<const std::byte*>(view.amax + view.slots));
  for (uint32_t i = 0; i < view.slots; ++i) {
    EXPECT_EQ(view.amax[i], 0u);
    EXPECT_EQ(view.scale[i], 1.0f);
    EXPECT_EQ(view.scale_inv[i], 1.0f);
    EXPECT_EQ(view.histories[i].count, 0u);
  }
  EXPECT_EQ(arena->MessageOffset(1), 108u);  // multiples of 16 bytes
  EXPECT_EQ(arena->MessageOffset(2), 116u);
}

TEST(ArenaTest, AnAllocatorWithoutMemoryIsReported) {
  class Empty : public Allocator {
   public:
    absl::StatusOr<void*> Allocate(size_t bytes) override {
      return absl::ResourceExhaustedError(std::to_string(bytes) + " bytes");
    }
    void Deallocate(void*, size_t) override {}
    Device device() const override { return Device::Host(); }
  };
  Empty empty;
  EXPECT_THAT(
      Arena::Create(&empty, MixedLayout()),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("bytes")));
}

}  // namespace
}  // namespace scalekeeper
