// What the processes of tests/amax/lost_rank_test.cc do, and what must come of
// it: the job, its observations, and a digest of scales and windows.
#ifndef SCALEKEEPER_TESTS_AMAX_GLOO_RANK_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_GLOO_RANK_TESTING_H_

#include <cstdint>
#include <vector>

namespace scalekeeper {

inline constexpr int kJobModules = 5;
inline constexpr int kJobSlots = 3 * kJobModules;
inline constexpr int kJobWindow = 8;

// Bits of a finite positive float, the same in every process.
inline uint32_t JobAmax(int64_t step, int rank, int slot) {
  uint64_t x = static_cast<uint64_t>(step) * 1000003 +
               static_cast<uint64_t>(rank) * 1009 + static_cast<uint64_t>(slot);
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53u;
  const uint32_t exponent = 117 + static_cast<uint32_t>((x >> 40) % 20);
  return (exponent << 23) | static_cast<uint32_t>(x & 0x7FFFFFu);
}

// FNV-1a over words.
class Digest {
 public:
  void Add(uint32_t word) { value_ = (value_ ^ word) * 0x100000001B3u; }
  void Add(const std::vector<uint32_t>& words) {
    for (const uint32_t word : words) Add(word);
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_GLOO_RANK_TESTING_H_
