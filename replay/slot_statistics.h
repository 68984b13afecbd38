// What a recipe loses of one quantizer over a trace. Plain values, merged by
// Add.
//
// A "tensor" is one rank's tensor of one step with a scale and a finite amax
// > 0. The formulas are those of numerics/statistics.h.
#ifndef SCALEKEEPER_REPLAY_SLOT_STATISTICS_H_
#define SCALEKEEPER_REPLAY_SLOT_STATISTICS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "numerics/bits.h"

namespace scalekeeper {

// Positive floats counted in eighths of an octave, 2^-16 to 2^16; what lies
// beyond counts at the ends.
class RatioHistogram {
 public:
  static constexpr int kLowest = -16;
  static constexpr size_t kBuckets = 8 * 32;

  void Count(float ratio) { ++counts_[Bucket(ratio)]; }
  void Add(const RatioHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint32_t count : counts_) sum += count;
    return sum;
  }
  // The ratio below or at which `share` (0..1) of all lie, up to a bucket's
  // width: its middle. 0 when nothing was counted.
  double Quantile(double share) const;

 private:
  // Three bits of mantissa beside the exponent.
  static size_t Bucket(float ratio) {
    constexpr int32_t kFirst = (127 + kLowest) * 8;
    const int32_t bucket =
        static_cast<int32_t>(BitsFromFloat(ratio) >> 20) - kFirst;
    return static_cast<size_t>(
        std::clamp<int32_t>(bucket, 0, static_cast<int32_t>(kBuckets) - 1));
  }

  std::array<uint32_t, kBuckets> counts_ = {};
};

struct SlotStatistics {
  int64_t steps = 0;            // with a scale and a finite amax > 0
  int64_t saturated_steps = 0;  // on any rank
  int64_t tensors = 0;
  int64_t saturated_tensors = 0;
  int64_t scale_changes = 0;
  int64_t non_finite_steps = 0;  // with an amax of inf or NaN on any rank

  // Amax now (the largest of the ranks) / amax the scale was made from.
  RatioHistogram staleness;
  float max_staleness = 0;
  float min_staleness = std::numeric_limits<float>::infinity();

  // Of tensors with a histogram: elements that are not 0, those of them that
  // become 0, and those above the format's maximum.
  double elements = 0;
  double underflow = 0;
  double saturated_elements = 0;

  void Add(const SlotStatistics& other);

  double saturated_share() const { return Share(saturated_tensors, tensors); }
  double underflow_share() const { return Share(underflow, elements); }
  double saturated_element_share() const {
    return Share(saturated_elements, elements);
  }
  // What recipes are ranked by: the tensors that saturate, plus the elements
  // that underflow. 0..2.
  double loss() const { return saturated_share() + underflow_share(); }

 private:
  template <typename T>
  static double Share(T part, T whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole)
                     : 0;
  }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_SLOT_STATISTICS_H_
