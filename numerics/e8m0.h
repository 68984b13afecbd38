// E8M0: the power-of-two block scale of the OCP MX formats.
//
// A code c stands for 2^(c - 127); there is no zero and no infinity. Code 0 is
// 2^-127 (a float32 subnormal, 0x00400000) and code 255 is NaN.
//
// Two ways to choose the code of a block from its amax:
//   * round up (default): the smallest power of two >= p, where
//     p = amax * fl(1 / format_max). No element of the block saturates.
//   * OCP floor: floor(log2 amax) - emax, clamped to 0..254 (OCP MX v1.0,
//     section 6.3). The top of the block may saturate.
// Non-finite: NaN gives 255; infinity gives 254 when rounding up.
//
// Worked number: amax 1, E4M3: p = 1/448 = 2^-8.8, rounds up to 2^-8: code 119.
#ifndef SCALEKEEPER_NUMERICS_E8M0_H_
#define SCALEKEEPER_NUMERICS_E8M0_H_

#include <cstdint>

#include "numerics/bits.h"
#include "numerics/format.h"
#include "numerics/host_device.h"

namespace scalekeeper {

inline constexpr uint8_t kE8M0NaN = 0xFF;

SK_HOST_DEVICE inline float DecodeE8M0(uint8_t code) {
  if (code == kE8M0NaN) return FloatFromBits(0x7FC00000u);
  if (code == 0) return FloatFromBits(0x00400000u);
  return FloatFromBits(static_cast<uint32_t>(code) << 23);
}

// The smallest code whose value is at least p; p is not negative.
SK_HOST_DEVICE inline uint8_t EncodeE8M0RoundUp(float p) {
  const uint32_t bits = BitsFromFloat(p) & kFloatMagnitudeMask;
  if (bits > kFloatInfBits) return kE8M0NaN;
  if (bits == kFloatInfBits) return 0xFE;
  uint32_t exponent = bits >> 23;
  const uint32_t mantissa = bits & kFloatMantissaMask;
  if (exponent == 0 ? mantissa > 0x00400000u
                    : (mantissa != 0 && exponent != 0xFEu)) {
    ++exponent;
  }
  return static_cast<uint8_t>(exponent);
}

// The block's code by round-up, from the bits of its amax (numerics/amax.h).
SK_HOST_DEVICE inline uint8_t E8M0RoundUpFromAmax(uint32_t amax_bits,
                                                  Format format) {
  // Constants, not a division for each block.
  const float inverse_max =
      format == Format::kE4M3
          ? 1.0f / FormatMax(Format::kE4M3)
          : (format == Format::kE5M2 ? 1.0f / FormatMax(Format::kE5M2)
                                     : 1.0f / FormatMax(Format::kE2M1));
  return EncodeE8M0RoundUp(FloatFromBits(amax_bits) * inverse_max);
}

// The block's code by the OCP floor rule, from the bits of its amax. NaN gives
// 255, infinity 254.
SK_HOST_DEVICE inline uint8_t E8M0FloorFromAmax(uint32_t amax_bits,
                                                Format format) {
  if (amax_bits > kFloatInfBits) return kE8M0NaN;
  if (amax_bits == kFloatInfBits) return 0xFE;
  int emax = 2;  // E2M1
  if (format == Format::kE4M3) emax = 8;
  if (format == Format::kE5M2) emax = 15;
  // Amaxes below 2^-126 end at code 0 whatever their exact exponent is.
  const int code = static_cast<int>(amax_bits >> 23) - emax;
  return static_cast<uint8_t>(code < 0 ? 0 : code);
}

// The factor to quantize with, 2^(127 - code). 2^-127 for code 254 is subnormal
// and must not be flushed; code 255 gives NaN.
SK_HOST_DEVICE inline float E8M0Scale(uint8_t code) {
  if (code == kE8M0NaN) return FloatFromBits(0x7FC00000u);
  return DecodeE8M0(static_cast<uint8_t>(254 - code));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_E8M0_H_
