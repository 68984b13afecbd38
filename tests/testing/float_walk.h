// Walks over the inputs where conversions go wrong: bit patterns of float32 of
// every exponent, and every tie between neighbouring codes.
#ifndef SCALEKEEPER_TESTS_TESTING_FLOAT_WALK_H_
#define SCALEKEEPER_TESTS_TESTING_FLOAT_WALK_H_

#include <cmath>
#include <cstdint>

#include "tests/testing/oracle.h"

namespace scalekeeper {

// Every exponent and sign, the top 7 bits of the mantissa exhaustively, each
// with the low bits 0, 1, the middle and its neighbours, and all ones: about
// 400,000 patterns, zeros, subnormals, infinities and NaNs included.
template <typename Visit>
void ForEachSteppedFloat(Visit visit) {
  constexpr uint32_t kLow[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t low : kLow) visit((high << 16) | low);
  }
}

// The value halfway between each two neighbouring finite codes, and the float32
// values directly below and above it, with both signs. Where the tie is not a
// float32 (below float32's smallest subnormal) it is left out.
template <typename Visit>
void ForEachTieNeighbour(oracle::Kind kind, Visit visit) {
  const uint32_t codes = static_cast<uint32_t>(oracle::PositiveCodes(kind));
  for (uint32_t code = 0; code + 1 < codes; ++code) {
    const double lower = oracle::Decode(kind, code);
    const double upper = oracle::Decode(kind, code + 1);
    if (!std::isfinite(upper)) break;
    const double tie = (lower + upper) / 2;
    const float tie32 = static_cast<float>(tie);
    if (static_cast<double>(tie32) != tie) continue;
    for (const float x : {std::nextafter(tie32, 0.0f), tie32,
                          std::nextafter(tie32, HUGE_VALF)}) {
      visit(static_cast<double>(x));
      visit(-static_cast<double>(x));
    }
  }
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_FLOAT_WALK_H_
