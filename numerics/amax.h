// amax = max |x|, kept as the bits of a non-negative float32.
//
// Compared as uint32, 0 < finite < infinity (0x7F800000) < NaN: an integer max
// is the float max that never loses a NaN, in a warp, across a grid or across
// ranks, and it does not depend on the order. Empty tensors give 0, and a
// reduced amax of exactly 0 means "not observed".
//
// Example:
//   uint32_t amax = 0;
//   for (float x : values) amax = MaxBits(amax, AmaxBits(x));
#ifndef SCALEKEEPER_NUMERICS_AMAX_H_
#define SCALEKEEPER_NUMERICS_AMAX_H_

#include <cstdint>

#include "numerics/bits.h"
#include "numerics/host_device.h"

namespace scalekeeper {

SK_HOST_DEVICE inline uint32_t AmaxBits(float value) {
  return BitsFromFloat(value) & kFloatMagnitudeMask;
}

SK_HOST_DEVICE inline uint32_t MaxBits(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

// True for infinities and NaNs. Any foreign sign bit must be masked before.
SK_HOST_DEVICE inline bool IsNonFiniteAmax(uint32_t amax_bits) {
  return amax_bits >= kFloatInfBits;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_AMAX_H_
