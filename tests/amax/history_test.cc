// The ring against a deque whose maximum is searched.
#include "amax/history.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

// 32 random bits a call.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

// A ring with its memory, uninitialized words filled with a value that must
// never be read.
struct TestRing {
  TestRing(uint32_t len, uint32_t capacity, uint32_t start = 0) {
    // Neighbours' words lie between.
    words.assign(RingWords(capacity) * kRingStride, kPoison);
    ring = {words.data(), len};
    history.cursor = start;
  }

  std::vector<uint32_t> Window() const {
    std::vector<uint32_t> window;
    for (uint32_t age = history.count; age-- > 0;) {
      window.push_back(ring.at(PositionOfAge(ring, history, age)));
    }
    return window;
  }

  static constexpr uint32_t kPoison = 0xFFFFFFFFu;
  std::vector<uint32_t> words;
  RingView ring;
  SlotHistory history;
};

enum class Shape { kRandom, kFalling, kRising, kConstant, kSawtooth };

uint32_t Amax(Shape shape, uint32_t i, Random* random) {
  switch (shape) {
    case Shape::kRandom:
      return (*random)() % 1000 + 1;
    case Shape::kFalling:
      return 0x7F800000u - i;
    case Shape::kRising:
      return i + 1;
    case Shape::kConstant:
      return 7;
    case Shape::kSawtooth:
      return 100000 - 13 * (i % 37);
  }
  return 0;
}

// Every suffix maximum that is read was made before, and no two that are both
// needed share a word.
TEST(HistoryTest, EachPushMakesOneSuffixMaximumOfTheOtherHalf) {
  for (uint32_t n = 1; n <= 70; ++n) {
    std::vector<uint32_t> words(RingWords(n) * kRingStride);
    const RingView ring{words.data(), n};
    std::vector<uint32_t> holder(words.size(), n);  // position per word
    for (uint32_t i = 0; i < 3 * n; ++i) {
      const uint32_t position = i % n;
      if (i >= n && position + 1 < ring.HalfEnd(position)) {
        const auto word = &ring.suffix_max(position + 1) - words.data();
        ASSERT_EQ(holder[static_cast<size_t>(word)], position + 1) << n;
      }
      const uint32_t made = ring.MadeAt(position);
      if (made == 0) continue;
      ASSERT_NE(made < ring.half(), position < ring.half()) << n;
      const auto word = &ring.suffix_max(made) - words.data();
      ASSERT_GE(word, static_cast<long>(n) * kRingStride);
      holder[static_cast<size_t>(word)] = made;
    }
  }
}

TEST(HistoryTest, WindowMaximumIsExactWhateverFalls) {
  Random random(1);
  for (uint32_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 15u, 16u, 17u, 63u, 255u, 256u,
                     257u, 1000u, 1024u}) {
    for (Shape shape : {Shape::kRandom, Shape::kFalling, Shape::kRising,
                        Shape::kConstant, Shape::kSawtooth}) {
      for (uint32_t capacity : {n, n + 1, 4 * n + 3}) {
        TestRing t(n, capacity, /*start=*/random() % n);
        std::deque<uint32_t> window;
        for (uint32_t i = 0; i < 3 * n + 40; ++i) {
          const uint32_t amax = Amax(shape, i, &random);
          const uint32_t leaving = window.size() == n ? window.front() : 0;
          window.push_back(amax);
          if (window.size() > n) window.pop_front();
          const PushResult result = PushAndMax(t.ring, t.history, amax);
          ASSERT_EQ(result.window_max,
                    *std::max_element(window.begin(), window.end()))
              << "N " << n << " capacity " << capacity << " push " << i;
          ASSERT_EQ(result.evicted, leaving);
          ASSERT_EQ(ScanMax(t.ring, t.history), result.window_max);
          ASSERT_EQ(t.history.count, window.size());
          // What a rebuild makes is what pushes have kept.
          const SlotHistory kept = t.history;
          if (i % 61 == 0) RebuildMaxima(t.ring, t.history);
          ASSERT_EQ(t.history.next_evicted, kept.next_evicted);
          ASSERT_EQ(t.history.next_suffix_max, kept.next_suffix_max);
          ASSERT_EQ(t.history.next_entry, kept.next_entry);
        }
        ASSERT_EQ(t.Window(),
                  std::vector<uint32_t>(window.begin(), window.end()));
      }
    }
  }
}

TEST(HistoryTest, TheLongestWindow) {
  Random random(2);
  const uint32_t n = 65536;
  TestRing t(n, n, 12345);
  uint32_t biggest_left = 0;
  for (uint32_t i = 0; i < n; ++i) {  // falling: the oldest is the maximum
    PushAndMax(t.ring, t.history, 0x7F800000u - i);
  }
  for (uint32_t i = 0; i < n; ++i) {
    const PushResult result = PushAndMax(t.ring, t.history, 1);
    biggest_left = 0x7F800000u - i;
    ASSERT_EQ(result.evicted, biggest_left);
    ASSERT_EQ(result.window_max, i + 1 == n ? 1 : biggest_left - 1);
  }
}

TEST(HistoryTest, CopyKeepsTheNewestForAnyLength) {
  Random random(3);
  for (uint32_t from : {1u, 4u, 17u, 256u}) {
    for (uint32_t to : {1u, 3u, 16u, 255u, 300u}) {
      for (uint32_t pushes : {0u, 1u, from / 2, from, 3 * from + 1}) {
        const uint32_t capacity = std::max(from, to);
        TestRing a(from, capacity), b(to, capacity);
        for (uint32_t i = 0; i < pushes; ++i) {
          PushAndMax(a.ring, a.history, random() % 100 + 1);
        }
        std::vector<uint32_t> window = a.Window();
        if (window.size() > to) {
          window.erase(window.begin(), window.end() - static_cast<long>(to));
        }
        b.history = CopyNewest(a.ring, a.history, b.ring, to / 2);
        RebuildMaxima(b.ring, b.history);
        ASSERT_EQ(b.Window(), window);
        // And it goes on as a ring of the new length.
        std::deque<uint32_t> truth(window.begin(), window.end());
        for (uint32_t i = 0; i < 2 * to + 5; ++i) {
          const uint32_t amax = random() % 100 + 1;
          truth.push_back(amax);
          if (truth.size() > to) truth.pop_front();
          ASSERT_EQ(PushAndMax(b.ring, b.history, amax).window_max,
                    *std::max_element(truth.begin(), truth.end()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace scalekeeper
