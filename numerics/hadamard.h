// The random Hadamard transform of 16 consecutive values (numerics.md 6).
//
// y = 1/4 H (d * x): fixed signs d, then Walsh-Hadamard butterflies in float32
// with strides 1, 2, 4, 8, then a factor of 1/4. It is orthogonal: a product
// that contracts two operands which were both transformed along the contracted
// dimension is unchanged, while an outlier is spread over 16 values. The caller
// rounds the results to the tensor's dtype.
//
// Example:
//   float v[16] = {...};
//   HadamardTransform(v);
//   InverseHadamardTransform(v);   // v again, up to rounding
#ifndef SCALEKEEPER_NUMERICS_HADAMARD_H_
#define SCALEKEEPER_NUMERICS_HADAMARD_H_

#include <cstdint>

#include "numerics/bits.h"
#include "numerics/host_device.h"

namespace scalekeeper {

inline constexpr int kHadamardSize = 16;

// Bit i is set where the sign of value i is negative:
// + + + - + - - - - - - + - + - -
inline constexpr uint32_t kHadamardNegative = 0xD7E8u;

namespace internal {

SK_HOST_DEVICE inline void FlipHadamardSigns(float* v) {
  SK_UNROLL
  for (int i = 0; i < kHadamardSize; ++i) {
    const uint32_t flip = ((kHadamardNegative >> i) & 1u) << 31;
    v[i] = FloatFromBits(BitsFromFloat(v[i]) ^ flip);
  }
}

SK_HOST_DEVICE inline void HadamardButterflies(float* v) {
  SK_UNROLL
  for (int stride = 1; stride < kHadamardSize; stride *= 2) {
    SK_UNROLL
    for (int i = 0; i < kHadamardSize; ++i) {
      if ((i & stride) != 0) continue;
      const float sum = v[i] + v[i + stride];
      const float difference = v[i] - v[i + stride];
      v[i] = sum;
      v[i + stride] = difference;
    }
  }
  SK_UNROLL
  for (int i = 0; i < kHadamardSize; ++i) v[i] *= 0.25f;
}

}  // namespace internal

// In place, over v[0..15].
SK_HOST_DEVICE inline void HadamardTransform(float* v) {
  internal::FlipHadamardSigns(v);
  internal::HadamardButterflies(v);
}

SK_HOST_DEVICE inline void InverseHadamardTransform(float* v) {
  internal::HadamardButterflies(v);
  internal::FlipHadamardSigns(v);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_HADAMARD_H_
