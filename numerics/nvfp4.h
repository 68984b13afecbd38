// NVFP4: E2M1 elements, an E4M3 scale per block of 16, a float32 scale per
// tensor (numerics.md 6).
//
//   S_enc   = 448 * 6 / amax_tensor                    per tensor, for encoding
//   S_dec_b = e4m3(amax_block * (S_enc * fl(1/6)))     per block, stored
//   S_enc_b = 1 / (f32(S_dec_b) * (1 / S_enc))
//   code    = e2m1(x * S_enc_b)
//   x^      = e2m1(code) * (f32(S_dec_b) * (1 / S_enc))
// Quotients and products that overflow are FLT_MAX. Four-over-six ("4 over 6")
// puts 256 in 448's place and tries 1.5 * S_dec_b beside S_dec_b, so that a
// block may end at 4 instead of 6; the smaller sum of |x - x^| wins.
//
//   tensor amax, block amax    S_enc, S_dec_b
//   1, 1                       2688, 448
//   12, 0.01                   224, 0.375
//   0, 0                       1, 0
//
// Non-finite: a tensor amax of infinity or NaN gives S_enc 1; a NaN in a block
// gives S_dec_b 0x7F and every code 7 (the block reads back NaN); an infinity
// saturates S_dec_b and its element. S_dec_b = 0 gives codes of +-0.
#ifndef SCALEKEEPER_NUMERICS_NVFP4_H_
#define SCALEKEEPER_NUMERICS_NVFP4_H_

#include <cstdint>

#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/format.h"
#include "numerics/host_device.h"

namespace scalekeeper {

inline constexpr int kNvfp4Block = 16;

namespace internal {

SK_HOST_DEVICE inline float AtMostFloatMax(float x) {
  return BitsFromFloat(x) == kFloatInfBits ? kFloatMax : x;
}

}  // namespace internal

// S_enc, from the bits of the tensor's amax.
SK_HOST_DEVICE inline float Nvfp4TensorScale(uint32_t amax_bits,
                                             bool four_over_six) {
  if (amax_bits == 0 || IsNonFiniteAmax(amax_bits)) return 1.0f;
  const float top = four_over_six ? 256.0f * 6.0f : 448.0f * 6.0f;
  return internal::AtMostFloatMax(top / FloatFromBits(amax_bits));
}

// S_dec_b as its E4M3 code, from the bits of the block's amax.
SK_HOST_DEVICE inline uint8_t Nvfp4BlockScale(uint32_t amax_bits,
                                              float tensor_scale) {
  const float factor = tensor_scale * (1.0f / 6.0f);
  return EncodeE4M3(
      internal::AtMostFloatMax(FloatFromBits(amax_bits) * factor));
}

// The other candidate of four-over-six: the E4M3 code of 1.5 * S_dec_b.
SK_HOST_DEVICE inline uint8_t Nvfp4WiderBlockScale(uint8_t block_scale) {
  return EncodeE4M3(1.5f * DecodeE4M3(block_scale));
}

// What a code of the block is multiplied with to dequantize;
// tensor_scale_inv = 1 / S_enc.
SK_HOST_DEVICE inline float Nvfp4ScaleInverse(uint8_t block_scale,
                                              float tensor_scale_inv) {
  return DecodeE4M3(block_scale) * tensor_scale_inv;
}

// S_enc_b: what an element is multiplied with to quantize. NaN for a block that
// holds a NaN, 0 for one whose S_dec_b is 0.
SK_HOST_DEVICE inline float Nvfp4Scale(uint8_t block_scale,
                                       float tensor_scale_inv) {
  if (block_scale == 0) return 0.0f;
  const float inverse = Nvfp4ScaleInverse(block_scale, tensor_scale_inv);
  return internal::AtMostFloatMax(1.0f / inverse);
}

// |x - x^| of one element under a candidate of four-over-six; `scale` and
// `scale_inv` are Nvfp4Scale and Nvfp4ScaleInverse of its block scale.
SK_HOST_DEVICE inline float Nvfp4Error(float x, float scale, float scale_inv) {
  const float back = DecodeE2M1(EncodeE2M1(x * scale)) * scale_inv;
  return FloatFromBits(AmaxBits(x - back));
}

// Stochastic rounding to E2M1 with one 32-bit draw: away from zero when
// draw < distance to the lower neighbour / gap * 2^32. Saturates; NaN gives 7;
// a value of the format is kept whatever the draw.
SK_HOST_DEVICE inline uint8_t EncodeE2M1Stochastic(float value, uint32_t draw) {
  const uint32_t magnitude_bits = AmaxBits(value);
  if (magnitude_bits > kFloatInfBits) return 0x7;
  const uint32_t sign = (BitsFromFloat(value) >> 28) & 0x8u;
  const float magnitude = FloatFromBits(magnitude_bits);
  if (magnitude >= 6.0f) return static_cast<uint8_t>(sign | 0x7u);
  // The lower neighbour's code and 1 / gap: gaps are 0.5, 1 and 2.
  const uint32_t exact =
      magnitude < 2.0f
          ? static_cast<uint32_t>(magnitude * 2.0f)
          : (magnitude < 4.0f ? 2u + static_cast<uint32_t>(magnitude) : 6u);
  const float per_gap =
      magnitude < 2.0f ? 2.0f : (magnitude < 4.0f ? 1.0f : 0.5f);
  const float fraction =
      (magnitude - DecodeE2M1(static_cast<uint8_t>(exact))) * per_gap;
  const uint32_t threshold = static_cast<uint32_t>(fraction * 4294967296.0f);
  return static_cast<uint8_t>(sign | (exact + (draw < threshold ? 1u : 0u)));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_NVFP4_H_
