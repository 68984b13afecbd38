// The low-precision element formats, and their encode / decode.
//
//   format     max finite  min normal  min subnormal  NaN code        infinity
//   E4M3 (FN)  448         2^-6        2^-9           0x7F 0xFF       none
//   E5M2       57344       2^-14       2^-16          0x7D-0x7F, +80  0x7C 0xFC
//   E2M1       6           1           0.5            none            none
//
// Cast (OCP OFP8 and MX, saturating): round to nearest, ties to even, then
// saturate to the largest finite value, infinities too. The sign of zero is
// kept. Any NaN gives code 0x7F in E4M3 and E5M2, as the conversion instruction
// of the GPUs does; E2M1 has none, so NaN gives +6 (code 7) and the caller
// raises the non-finite flag. A cast rounds once, straight from float32; never
// through bfloat16 or half.
//
// Normal results differ from the input by at most 2^-(mantissa bits + 1) of it.
//
// Example:
//   uint8_t code = EncodeE4M3(x * scale);       // one product, one rounding
//   float back = DecodeE4M3(code) * scale_inv;
#ifndef SCALEKEEPER_NUMERICS_FORMAT_H_
#define SCALEKEEPER_NUMERICS_FORMAT_H_

#include <cstdint>

#include "numerics/bits.h"
#include "numerics/host_device.h"

namespace scalekeeper {

// Element formats that a recipe can name.
enum class Format { kE4M3, kE5M2, kE2M1 };

namespace internal {

// One sign bit, kExponentBits, kMantissaBits; the code kMaxCode is the largest
// finite magnitude and the code kNanCode stands for NaN.
template <int kExponentBits, int kMantissaBits, int kBias, uint32_t kMaxCode,
          uint32_t kMaxFiniteBits, uint32_t kNanCode>
struct MiniFloat {
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr int kSignShift = 31 - kExponentBits - kMantissaBits;

  // Both roundings are computed and one is selected: without branches the loop
  // around it vectorizes.
  SK_HOST_DEVICE static uint8_t Encode(float value) {
    constexpr uint32_t kMinNormalBits = static_cast<uint32_t>(128 - kBias)
                                        << 23;
    constexpr uint32_t kMagicBits =
        static_cast<uint32_t>(128 - kBias - kMantissaBits + 23) << 23;
    constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias)
                                 << kMantissaBits;
    const uint32_t bits = BitsFromFloat(value);
    const uint32_t sign = (bits & kFloatSignBit) >> kSignShift;
    const uint32_t magnitude = bits & kFloatMagnitudeMask;
    // Subnormal result: adding the power of two whose ulp is the smallest
    // subnormal makes the float32 adder round to nearest even for us.
    const float sum = FloatFromBits(magnitude) + FloatFromBits(kMagicBits);
    const uint32_t subnormal = BitsFromFloat(sum) - kMagicBits;
    const uint32_t odd = (magnitude >> kShift) & 1u;
    const uint32_t rounded = magnitude + ((1u << (kShift - 1)) - 1u) + odd;
    const uint32_t normal = (rounded >> kShift) - kRebias;
    uint32_t code = Select(magnitude < kMinNormalBits, subnormal, normal);
    code = Select(magnitude >= kMaxFiniteBits, kMaxCode, code);
    const bool is_nan = magnitude > kFloatInfBits;
    code = Select(is_nan, kNanCode, code);
    return static_cast<uint8_t>(code | Select(is_nan, 0u, sign));
  }

  // Finite codes only.
  SK_HOST_DEVICE static float DecodeFinite(uint32_t code) {
    constexpr uint32_t kMagnitudeMask =
        (1u << (kExponentBits + kMantissaBits)) - 1u;
    const uint32_t sign = (code << kSignShift) & kFloatSignBit;
    const uint32_t magnitude = code & kMagnitudeMask;
    if (magnitude < (1u << kMantissaBits)) {
      constexpr uint32_t kSubnormalBits =
          static_cast<uint32_t>(128 - kBias - kMantissaBits) << 23;
      const float value =
          static_cast<float>(magnitude) * FloatFromBits(kSubnormalBits);
      return FloatFromBits(sign | BitsFromFloat(value));
    }
    return FloatFromBits(sign | ((magnitude << kShift) +
                                 (static_cast<uint32_t>(127 - kBias) << 23)));
  }
};

using E4M3 = MiniFloat<4, 3, 7, 0x7Eu, 0x43E00000u, 0x7Fu>;
using E5M2 = MiniFloat<5, 2, 15, 0x7Bu, 0x47600000u, 0x7Fu>;
using E2M1 = MiniFloat<2, 1, 1, 0x7u, 0x40C00000u, 0x7u>;

}  // namespace internal

SK_HOST_DEVICE inline uint8_t EncodeE4M3(float value) {
  return internal::E4M3::Encode(value);
}
SK_HOST_DEVICE inline uint8_t EncodeE5M2(float value) {
  return internal::E5M2::Encode(value);
}
// The code of a magnitude of at most 6, plus kE2M1Offset. Adding 2^22 times the
// value's power of two (not below 1) makes the float32 adder round to multiples
// of 0.5, 1 or 2, ties to even codes; the sum's last bits count them. Fewer
// operations than the general encoder, and sums of offsets can be taken off
// together where codes are packed.
inline constexpr uint32_t kE2M1Offset = (22u << 23) + (0x3F800000u >> 22);
SK_HOST_DEVICE inline uint32_t OffsetE2M1(float magnitude) {
  const float at_least_one = magnitude > 1.0f ? magnitude : 1.0f;
  const uint32_t power = BitsFromFloat(at_least_one) & kFloatInfBits;
  const float sum = magnitude + FloatFromBits(power + (22u << 23));
  return BitsFromFloat(sum) - power + (power >> 22);
}

// The code is in the low four bits.
SK_HOST_DEVICE inline uint8_t EncodeE2M1(float value) {
  constexpr uint32_t kSix = 0x40C00000u;
  const uint32_t bits = BitsFromFloat(value);
  const uint32_t magnitude = bits & kFloatMagnitudeMask;
  const uint32_t sign =
      internal::Select(magnitude > kFloatInfBits, 0u, (bits >> 28) & 0x8u);
  const uint32_t kept = magnitude < kSix ? magnitude : kSix;
  const uint32_t code = OffsetE2M1(FloatFromBits(kept)) - kE2M1Offset;
  return static_cast<uint8_t>(code | sign);
}

SK_HOST_DEVICE inline float DecodeE4M3(uint8_t code) {
  if ((code & 0x7Fu) == 0x7Fu) return FloatFromBits(0x7FC00000u);
  return internal::E4M3::DecodeFinite(code);
}
SK_HOST_DEVICE inline float DecodeE5M2(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  if ((code & 0x7Fu) == 0x7Cu) return FloatFromBits(sign | kFloatInfBits);
  if ((code & 0x7Fu) > 0x7Cu) return FloatFromBits(0x7FC00000u);
  return internal::E5M2::DecodeFinite(code);
}
SK_HOST_DEVICE inline float DecodeE2M1(uint8_t code) {
  return internal::E2M1::DecodeFinite(code & 0xFu);
}

// The largest finite value ("fp8_max" in scale formulas).
SK_HOST_DEVICE constexpr float FormatMax(Format format) {
  return format == Format::kE4M3 ? 448.0f
                                 : (format == Format::kE5M2 ? 57344.0f : 6.0f);
}

SK_HOST_DEVICE inline uint8_t Encode(Format format, float value) {
  switch (format) {
    case Format::kE4M3:
      return EncodeE4M3(value);
    case Format::kE5M2:
      return EncodeE5M2(value);
    case Format::kE2M1:
      return EncodeE2M1(value);
  }
  return 0;
}

SK_HOST_DEVICE inline float Decode(Format format, uint8_t code) {
  switch (format) {
    case Format::kE4M3:
      return DecodeE4M3(code);
    case Format::kE5M2:
      return DecodeE5M2(code);
    case Format::kE2M1:
      return DecodeE2M1(code);
  }
  return 0;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_FORMAT_H_
