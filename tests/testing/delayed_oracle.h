// The truth for delayed scaling: written from the definition, slow on purpose,
// and without any of the project's numerics. Test only.
//
// The window is a deque of amax bits; its maximum is a search; the scale is one
// division rounded once to float32 (in double, whose 53 bits make the second
// rounding harmless), then an exact power of two.
#ifndef SCALEKEEPER_TESTS_TESTING_DELAYED_ORACLE_H_
#define SCALEKEEPER_TESTS_TESTING_DELAYED_ORACLE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>

namespace scalekeeper {

struct DelayedOracle {
  enum class Algo { kMax, kMostRecent };
  enum class NonFinite { kSkip, kFreeze, kBackOff };

  double fp8_max = 448;
  int margin = 0;
  size_t history_len = 1024;
  Algo algo = Algo::kMax;
  NonFinite non_finite = NonFinite::kSkip;

  std::deque<uint32_t> window;  // oldest first
  float scale = 1;
  bool measure = true;
  int non_finite_steps = 0;

  float scale_inv() const { return static_cast<float>(1.0 / double{scale}); }

  // One update with the reduced amax; foreign sign bits count for nothing.
  void Step(uint32_t amax_bits) {
    const uint32_t reduced = amax_bits & 0x7FFFFFFFu;
    if (reduced == 0) return;  // not observed
    if (!Finite(reduced)) {
      ++non_finite_steps;
      if (non_finite == NonFinite::kSkip) return;
      if (non_finite == NonFinite::kBackOff) {
        scale = std::max(scale / 2, std::numeric_limits<float>::min());
        return;
      }
    }
    window.push_back(reduced);
    if (window.size() > history_len) window.pop_front();
    const uint32_t selected =
        algo == Algo::kMax ? *std::max_element(window.begin(), window.end())
                           : window.back();
    if (!Finite(selected)) return;
    scale = ScaleOf(Value(selected));
    measure = false;
  }
  void Step(float amax) { Step(Bits(amax)); }

  float ScaleOf(float amax) const {
    const float q = static_cast<float>(fp8_max / double{amax});
    if (std::isinf(q)) return std::numeric_limits<float>::max();
    return static_cast<float>(
        std::max(std::ldexp(double{q}, -margin), std::ldexp(1.0, -126)));
  }

  static bool Finite(uint32_t bits) { return std::isfinite(Value(bits)); }
  static float Value(uint32_t bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  static uint32_t Bits(float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_DELAYED_ORACLE_H_
