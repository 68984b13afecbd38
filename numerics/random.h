// Random numbers that every backend draws alike: Philox4x32-10 (Salmon, Moraes,
// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A counter-based generator: four words are a function of a key and a counter
// and of nothing else, so an element's draw depends on where it is and not on
// which thread makes it. Stochastic rounding (numerics.md 6) takes one 32-bit
// word per element: key (seed, hash of the slot's name), counter (step, element
// index / 4), word index % 4.
//
// Example:
//   const RandomKey key = MakeRandomKey(seed, "layers.3.fc1/grad");
//   uint32_t draw = RandomDraws(key, step, index / 4).words[index % 4];
#ifndef SCALEKEEPER_NUMERICS_RANDOM_H_
#define SCALEKEEPER_NUMERICS_RANDOM_H_

#include <cstddef>
#include <cstdint>

#include "numerics/host_device.h"

namespace scalekeeper {

struct RandomKey {
  uint32_t words[2] = {0, 0};
};

struct RandomWords {
  uint32_t words[4];
};

// Ten rounds on the counter's four words.
SK_HOST_DEVICE inline RandomWords Philox4x32(RandomWords counter,
                                             RandomKey key) {
  SK_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter.words[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter.words[2];
    counter = {
        {static_cast<uint32_t>(b >> 32) ^ counter.words[1] ^ key.words[0],
         static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ counter.words[3] ^ key.words[1],
         static_cast<uint32_t>(a)}};
    key.words[0] += 0x9E3779B9u;
    key.words[1] += 0xBB67AE85u;
  }
  return counter;
}

// FNV-1a over the name's bytes (Fowler, Noll, Vo; 32 bits).
inline uint32_t HashSlotName(const char* name, size_t size) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(name[i])) * 16777619u;
  }
  return hash;
}

// Word 0 is the seed's low half; the high half is mixed into the name's hash.
inline RandomKey MakeRandomKey(int64_t seed, const char* name, size_t size) {
  const uint64_t bits = static_cast<uint64_t>(seed);
  RandomKey key;
  key.words[0] = static_cast<uint32_t>(bits);
  key.words[1] = HashSlotName(name, size) ^ static_cast<uint32_t>(bits >> 32);
  return key;
}

// The draws of elements 4 * quad .. 4 * quad + 3 in a step.
SK_HOST_DEVICE inline RandomWords RandomDraws(RandomKey key, int64_t step,
                                              int64_t quad) {
  const uint64_t s = static_cast<uint64_t>(step);
  const uint64_t q = static_cast<uint64_t>(quad);
  return Philox4x32(
      {{static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32),
        static_cast<uint32_t>(q), static_cast<uint32_t>(q >> 32)}},
      key);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_RANDOM_H_
