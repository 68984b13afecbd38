// Philox4x32-10 against the known answers of its authors (Random123 1.14,
// tests/kat_vectors), and what draws depend on.
#include "numerics/random.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;

TEST(PhiloxTest, KnownAnswers) {
  EXPECT_THAT(Philox4x32({{0, 0, 0, 0}}, {{0, 0}}).words,
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  const uint32_t ones = 0xffffffffu;
  EXPECT_THAT(Philox4x32({{ones, ones, ones, ones}}, {{ones, ones}}).words,
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  // The digits of pi.
  EXPECT_THAT(Philox4x32({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}},
                         {{0xa4093822u, 0x299f31d0u}})
                  .words,
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(RandomKeyTest, HashesNamesByFnv1a) {
  // Fowler, Noll, Vo: test vectors of the 32-bit FNV-1a.
  EXPECT_EQ(HashSlotName("", 0), 0x811c9dc5u);
  EXPECT_EQ(HashSlotName("a", 1), 0xe40c292cu);
  EXPECT_EQ(HashSlotName("foobar", 6), 0xbf9cf968u);
}

TEST(RandomKeyTest, DependsOnBothHalvesOfTheSeedAndOnTheName) {
  std::set<std::vector<uint32_t>> keys;
  for (const int64_t seed : {int64_t{0}, int64_t{1}, int64_t{-1},
                             int64_t{1} << 32, (int64_t{1} << 32) + 1}) {
    for (const std::string name : {"a/grad", "b/grad"}) {
      const RandomKey key = MakeRandomKey(seed, name.data(), name.size());
      keys.insert({key.words[0], key.words[1]});
    }
  }
  EXPECT_EQ(keys.size(), 10u);
}

TEST(RandomDrawsTest, StepAndQuadAreTheCounter) {
  const RandomKey key = {{7, 9}};
  const int64_t step = 0x123456789abcdef0, quad = 0x0fedcba987654321;
  const RandomWords want =
      Philox4x32({{0x9abcdef0u, 0x12345678u, 0x87654321u, 0x0fedcba9u}}, key);
  const RandomWords got = RandomDraws(key, step, quad);
  EXPECT_THAT(got.words, ElementsAre(want.words[0], want.words[1],
                                     want.words[2], want.words[3]));
}

}  // namespace
}  // namespace scalekeeper
