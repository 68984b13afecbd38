// What a scale loses of a tensor: saturation at the top, underflow at the
// bottom, staleness of a delayed scale (numerics 7).
//
//   SmallestSubnormal   E4M3 2^-9, E5M2 2^-16, E2M1 0.5
//   UnderflowThreshold  |x| up to (SmallestSubnormal / 2) / scale becomes 0:
//                       half of it is a tie, which goes to the even code 0
//   Saturates           amax * scale exceeds the format's maximum by more than
//                       the roundings of a scale made from that very amax
//   Staleness           amax now / the amax that the scale was made from;
//                       above 2^margin the tensor saturates, 1 is fresh, below
//                       1 range is left unused: -log2 of it are bits
//
// A histogram over powers of two (count c of the values in [low, high)) takes
// values as evenly spread between its bounds: SpreadBelow is the share of them
// below a threshold.
#ifndef SCALEKEEPER_NUMERICS_STATISTICS_H_
#define SCALEKEEPER_NUMERICS_STATISTICS_H_

#include "numerics/format.h"
#include "numerics/host_device.h"
#include "numerics/scale.h"

namespace scalekeeper {

SK_HOST_DEVICE constexpr float SmallestSubnormal(Format format) {
  return format == Format::kE4M3
             ? 0.001953125f  // 2^-9
             : (format == Format::kE5M2 ? 0.0000152587890625f : 0.5f);
}

// In double: the quotient of a small scale would overflow a float.
SK_HOST_DEVICE inline double UnderflowThreshold(Format format, float scale) {
  return 0.5 * static_cast<double>(SmallestSubnormal(format)) /
         static_cast<double>(scale);
}

// format_max / amax and the product with amax round once each: 2 * 2^-24 at
// most, here 2^-22. What lies beyond is a value above the format's maximum.
SK_HOST_DEVICE inline float SaturationBound(float format_max) {
  return format_max * (1.0f + 0x1p-22f);
}
// amax is finite.
SK_HOST_DEVICE inline bool Saturates(float amax, float scale,
                                     float format_max) {
  return amax * scale > SaturationBound(format_max);
}

SK_HOST_DEVICE inline float Staleness(float amax, float scale_inv,
                                      float format_max, int margin) {
  return amax / AmaxOfScale(scale_inv, format_max, margin);
}

// 0..1. low < high.
SK_HOST_DEVICE inline double SpreadBelow(double low, double high,
                                         double threshold) {
  if (threshold <= low) return 0;
  if (threshold >= high) return 1;
  return (threshold - low) / (high - low);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_STATISTICS_H_
