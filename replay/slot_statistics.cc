#include "replay/slot_statistics.h"

#include <cmath>

namespace scalekeeper {

double RatioHistogram::Quantile(double share) const {
  const uint64_t all = total();
  if (all == 0) return 0;
  const double want = std::max(1.0, share * static_cast<double>(all));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (static_cast<double>(seen) < want) continue;
    const double low = 1.0 + 0.125 * static_cast<double>(i % 8);
    return std::ldexp(low + 0.0625, kLowest + static_cast<int>(i / 8));
  }
  return std::ldexp(1.0, kLowest + static_cast<int>(kBuckets / 8));
}

void SlotStatistics::Add(const SlotStatistics& other) {
  steps += other.steps;
  saturated_steps += other.saturated_steps;
  tensors += other.tensors;
  saturated_tensors += other.saturated_tensors;
  scale_changes += other.scale_changes;
  non_finite_steps += other.non_finite_steps;
  staleness.Add(other.staleness);
  max_staleness = std::max(max_staleness, other.max_staleness);
  min_staleness = std::min(min_staleness, other.min_staleness);
  elements += other.elements;
  underflow += other.underflow;
  saturated_elements += other.saturated_elements;
}

}  // namespace scalekeeper
