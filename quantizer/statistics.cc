#include "quantizer/statistics.h"

#include <cmath>
#include <limits>

#include "numerics/amax.h"
#include "numerics/bits.h"

namespace scalekeeper {
namespace {

double Fraction(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

float Statistics::amax() const { return FloatFromBits(amax_bits); }

double Statistics::underflow_fraction() const {
  return Fraction(underflow, nonzero);
}

double Statistics::saturation_fraction() const {
  return Fraction(saturation, count);
}

double Statistics::sqnr_db() const {
  if (error == 0) return std::numeric_limits<double>::infinity();
  return 10.0 * std::log10(signal / error);
}

double Statistics::staleness() const {
  if (scale_amax == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(amax()) / static_cast<double>(scale_amax);
}

void Statistics::Merge(const Statistics& other) {
  count += other.count;
  nonzero += other.nonzero;
  underflow += other.underflow;
  saturation += other.saturation;
  non_finite += other.non_finite;
  amax_bits = MaxBits(amax_bits, other.amax_bits);
  signal += other.signal;
  error += other.error;
}

}  // namespace scalekeeper
