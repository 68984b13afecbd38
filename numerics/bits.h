// Float32 as bits, and the 16-bit formats as float32.
//
// bfloat16 and IEEE half are storage formats here: their values are widened to
// float32 (exact) before any arithmetic, and results are rounded once (to
// nearest, ties to even) on the way back. NaN stays NaN (its payload may
// change), infinities stay infinities, no value is flushed to zero.
//
// Example:
//   float x = FloatFromBF16(0x3F80);        // 1.0f
//   uint16_t h = F16FromFloat(65520.0f);    // 0x7C00: rounds to infinity
#ifndef SCALEKEEPER_NUMERICS_BITS_H_
#define SCALEKEEPER_NUMERICS_BITS_H_

#include <cstdint>
#include <cstring>

#include "numerics/host_device.h"

namespace scalekeeper {

inline constexpr uint32_t kFloatSignBit = 0x80000000u;
inline constexpr uint32_t kFloatMagnitudeMask = 0x7FFFFFFFu;
inline constexpr uint32_t kFloatInfBits = 0x7F800000u;
inline constexpr uint32_t kFloatMantissaMask = 0x007FFFFFu;
inline constexpr float kFloatMax = 3.4028234663852886e38f;
inline constexpr float kFloatMinNormal = 1.1754943508222875e-38f;  // 2^-126

namespace internal {

// `condition ? yes : no` on bits, without a branch.
SK_HOST_DEVICE constexpr uint32_t Select(bool condition, uint32_t yes,
                                         uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

}  // namespace internal

SK_HOST_DEVICE inline uint32_t BitsFromFloat(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

SK_HOST_DEVICE inline float FloatFromBits(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

SK_HOST_DEVICE inline float FloatFromBF16(uint16_t bits) {
  return FloatFromBits(static_cast<uint32_t>(bits) << 16);
}

SK_HOST_DEVICE inline uint16_t BF16FromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  if ((bits & kFloatMagnitudeMask) > kFloatInfBits) {
    return static_cast<uint16_t>((bits >> 16) | 0x0040u);  // stays a NaN
  }
  const uint32_t round = 0x7FFFu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((bits + round) >> 16);
}

// Every case is computed and one is selected: loops around it vectorize.
SK_HOST_DEVICE inline float FloatFromF16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  // Subnormal: magnitude * 2^-24, exact in float32.
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) *
                          5.9604644775390625e-8f;
  // Normal: rebias the exponent, 15 -> 127. Infinity and NaN keep theirs.
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = (magnitude << 13) | kFloatInfBits;
  uint32_t bits =
      internal::Select(magnitude < 0x0400u, BitsFromFloat(subnormal), normal);
  bits = internal::Select(magnitude >= 0x7C00u, special, bits);
  return FloatFromBits(sign | bits);
}

SK_HOST_DEVICE inline uint16_t F16FromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & kFloatMagnitudeMask;
  if (magnitude > kFloatInfBits) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 0x477FF000u) {  // 65520: the tie between 65504 and infinity
    return static_cast<uint16_t>(sign | 0x7C00u);
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: round to a multiple of 2^-24
    const float magic = 0.5f;     // its ulp is 2^-24
    const float sum = FloatFromBits(magnitude) + magic;
    return static_cast<uint16_t>(sign |
                                 (BitsFromFloat(sum) - BitsFromFloat(magic)));
  }
  const uint32_t round = 0x0FFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign |
                               (((magnitude + round) >> 13) - (112u << 10)));
}

// The float32 next to `value` towards zero, its last bit set when inexact
// ("round to odd"). Narrowing that to a 16-bit format rounds as if straight
// from the double: float32 has more than two bits more than either format.
SK_HOST_DEVICE inline float FloatFromDoubleToOdd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  // Equal, or NaN.
  if (!(back < value) && !(back > value)) return nearest;
  uint32_t bits = BitsFromFloat(nearest);
  const bool away_from_zero =
      value < 0 ? back < value : back > value;  // an infinity, too
  if (away_from_zero) --bits;
  return FloatFromBits(bits | 1u);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_BITS_H_
