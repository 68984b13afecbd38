// What quantizing did to a tensor, counted (definitions: numerics.md section
// 7).
//
// A plain value; fractions come from counts, so tensors, micro-batches and
// ranks are merged by adding. "Under its scale" means the scale that the
// quantizer used or would use.
//
// Example:
//   SK_ASSIGN_OR_RETURN(Statistics s, quantizer->Measure(x, stream));
//   if (s.underflow_fraction() > 0.05 || s.sqnr_db() < 20) Warn(...);
#ifndef SCALEKEEPER_QUANTIZER_STATISTICS_H_
#define SCALEKEEPER_QUANTIZER_STATISTICS_H_

#include <cstdint>

namespace scalekeeper {

struct Statistics {
  int64_t count = 0;      // elements
  int64_t nonzero = 0;    // x != 0; infinities and NaN are not zero
  int64_t underflow = 0;  // x != 0 whose code is +-0
  // |x| * scale > format max, in float32: infinities, never NaN. A scale made
  // from this tensor's amax can put that one element a rounding above the max.
  int64_t saturation = 0;
  int64_t non_finite = 0;  // infinities and NaN
  uint32_t amax_bits = 0;  // max |x| as bits (numerics/amax.h)
  // Over finite elements, in double: x squared, and (x - x^) squared where x^
  // is what Dequantize gives, a float32.
  double signal = 0;
  double error = 0;

  // What x was multiplied with, and its inverse; where blocks have scales of
  // their own, the tensor's part (S_enc of NVFP4), else 1.
  float scale = 1;
  float scale_inv = 1;
  // The amax that the scale was made from; 0 where there is none.
  float scale_amax = 0;

  float amax() const;

  // underflow / nonzero and saturation / count; 0 for an empty denominator.
  double underflow_fraction() const;
  double saturation_fraction() const;

  // Signal to quantization noise, 20 log10(|x| / |x - x^|) in dB. +infinity
  // when nothing was lost (an empty or all-zero tensor, too), -infinity when a
  // finite element became infinite.
  double sqnr_db() const;

  // amax now / amax that the scale was made from: above 1 means that the scale
  // is too large for this tensor. NaN where the scale has no amax.
  double staleness() const;

  // Adds the other's counts and sums and takes the larger amax. The scale
  // fields stay this object's.
  void Merge(const Statistics& other);
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_STATISTICS_H_
