// THE scale formulas. `scale` multiplies when quantizing, `scale_inv` when
// dequantizing. Float32, single correctly rounded operations in this order.
//
// Delayed scaling, from the selected amax of the window:
//   amax 1, E4M3, margin 0 / 1 / 2    448 / 224 / 112
//   amax 3                            149.33333 (0x43155555)
//   amax <= 0x03E00001 (448/FLT_MAX)  FLT_MAX, whatever the margin
//   huge amax and margin              not below 2^-126
//   0, infinity, NaN                  not for this function: scale unchanged
// Current scaling and FP32 blocks:
//   amax below amax_epsilon           amax_epsilon takes its place
//   0, infinity, NaN                  1
//   quotient overflows                the largest finite value of the input
//   power_2_scale                     mantissa cleared (rounds down)
#ifndef SCALEKEEPER_NUMERICS_SCALE_H_
#define SCALEKEEPER_NUMERICS_SCALE_H_

#include <cstdint>

#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/host_device.h"

namespace scalekeeper {

// What a formula change increments; it is part of every recipe's fingerprint.
inline constexpr int kNumericsVersion = 1;

// 2^-margin, for margin 0..32.
SK_HOST_DEVICE inline float MarginFactor(int margin) {
  return FloatFromBits(static_cast<uint32_t>(127 - margin) << 23);
}

// Delayed scaling. amax is finite and > 0, margin is 0..32.
SK_HOST_DEVICE inline float ScaleFromAmax(float amax, float format_max,
                                          int margin) {
  const float quotient = format_max / amax;
  if (IsNonFiniteAmax(AmaxBits(quotient))) return kFloatMax;
  const float scale = quotient * MarginFactor(margin);
  return scale < kFloatMinNormal ? kFloatMinNormal : scale;
}

SK_HOST_DEVICE inline float ScaleInverse(float scale) { return 1.0f / scale; }

// non_finite_amax: BACK_OFF. The scale is halved, not below 2^-126.
SK_HOST_DEVICE inline float BackedOffScale(float scale) {
  const float half = scale * 0.5f;
  return half < kFloatMinNormal ? kFloatMinNormal : half;
}

struct CurrentScaleOptions {
  float format_max = 448.0f;
  bool power_2_scale = false;
  float amax_epsilon = 0.0f;
  // Stands in for an overflowing quotient: FLT_MAX per tensor and per row, the
  // largest finite value of the input's dtype for FP32 blocks.
  float overflow_scale = kFloatMax;
};

// Current scaling, from the bits of the tensor's (row's, block's) own amax.
SK_HOST_DEVICE inline float CurrentScaleFromAmax(
    uint32_t amax_bits, const CurrentScaleOptions& options) {
  if (IsNonFiniteAmax(amax_bits)) return 1.0f;
  float amax = FloatFromBits(amax_bits);
  if (amax < options.amax_epsilon) amax = options.amax_epsilon;
  if (AmaxBits(amax) == 0) return 1.0f;
  float scale = options.format_max / amax;
  if (IsNonFiniteAmax(AmaxBits(scale))) scale = options.overflow_scale;
  if (options.power_2_scale) {
    scale = FloatFromBits(BitsFromFloat(scale) & ~kFloatMantissaMask);
  }
  return scale;
}

// The amax that a delayed scale was made from, for staleness (numerics 7).
SK_HOST_DEVICE inline float AmaxOfScale(float scale_inv, float format_max,
                                        int margin) {
  return format_max * MarginFactor(margin) * scale_inv;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_SCALE_H_
