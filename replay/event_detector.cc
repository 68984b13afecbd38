#include "replay/event_detector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "numerics/amax.h"

namespace scalekeeper {
namespace {

constexpr size_t kNeeded = 8;
constexpr size_t kMaxGap = 2;
constexpr uint32_t kSixteenfold = 4u << 23;  // in the exponent
constexpr double kLossFactor = 2;

}  // namespace

std::string Name(const TraceEvent& event) {
  if (event.first_step == event.last_step) {
    return absl::StrCat("step ", event.first_step);
  }
  return absl::StrCat("steps ", event.first_step, "-", event.last_step);
}

EventDetector::EventDetector(size_t columns)
    : columns_(columns),
      windows_(columns * kWindow),
      least_(columns, UINT32_MAX),
      largest_(columns),
      counts_(columns) {}

double EventDetector::LossMedian() const {
  std::vector<double> sorted = losses_;
  const auto middle =
      sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double EventDetector::MedianLog2(size_t column) const {
  std::array<uint32_t, kWindow> sorted;
  const size_t count = std::min<size_t>(counts_[column], kWindow);
  std::copy_n(windows_.begin() + static_cast<std::ptrdiff_t>(column * kWindow),
              count, sorted.begin());
  std::nth_element(sorted.begin(), sorted.begin() + count / 2,
                   sorted.begin() + count);
  return std::log2(static_cast<double>(FloatFromBits(sorted[count / 2])));
}

bool EventDetector::Step(int64_t step, const std::optional<double>& loss,
                         const uint32_t* amaxes) {
  size_t jumped = 0;
  size_t worst_column = 0;
  double worst_log2 = 0;
  for (size_t c = 0; c < columns_; ++c) {
    const uint32_t bits = amaxes[c];
    if (bits == 0) continue;
    uint32_t* const window = windows_.data() + c * kWindow;
    const uint32_t count = std::min<uint32_t>(counts_[c], kWindow);
    if (IsNonFiniteAmax(bits)) {
      ++jumped;
      worst_column = c;
      worst_log2 = std::numeric_limits<double>::infinity();
      continue;
    }
    const bool near = largest_[c] <= bits + kSixteenfold &&
                      bits <= uint64_t{least_[c]} + kSixteenfold;
    if (count >= kNeeded && !near) {
      // More than half of them far below (above) mean that the median is.
      const uint32_t low = bits > kSixteenfold ? bits - kSixteenfold : 0;
      const uint32_t high = bits + kSixteenfold;
      uint32_t below = 0;
      uint32_t above = 0;
      for (uint32_t i = 0; i < kWindow; ++i) {
        const uint32_t held = i < count ? 1 : 0;
        below += held & static_cast<uint32_t>(window[i] < low);
        above += held & static_cast<uint32_t>(window[i] > high);
      }
      if (2 * below > count || 2 * above > count) {
        ++jumped;
        const double log2 =
            std::log2(static_cast<double>(FloatFromBits(bits))) - MedianLog2(c);
        if (std::abs(log2) > std::abs(worst_log2)) {
          worst_log2 = log2;
          worst_column = c;
        }
      }
    }
    window[counts_[c] % kWindow] = bits;
    ++counts_[c];
    if (near) {
      least_[c] = std::min(least_[c], bits);
      largest_[c] = std::max(largest_[c], bits);
    } else {
      const uint32_t held = std::min<uint32_t>(counts_[c], kWindow);
      least_[c] = *std::min_element(window, window + held);
      largest_[c] = *std::max_element(window, window + held);
    }
  }
  bool loss_jumped = false;
  double loss_before = 0;
  if (loss) {
    const bool finite = std::isfinite(*loss);
    if (losses_.size() >= kNeeded) {
      loss_before = LossMedian();
      loss_jumped =
          !finite || (loss_before > 0 && *loss > kLossFactor * loss_before);
    }
    if (finite) {
      if (losses_.size() == kWindow) losses_.erase(losses_.begin());
      losses_.push_back(*loss);
    }
  }
  const size_t row = rows_++;
  const bool jumps = loss_jumped || (jumped > 0 && jumped * 20 >= columns_);
  bool starts = false;
  if (open_ && row > open_->last_row + kMaxGap + 1) Finish();
  if (jumps) {
    if (!open_) {
      starts = true;
      open_.emplace();
      open_->first_row = row > 0 ? row - 1 : 0;
      open_->first_step = row > 0 ? previous_step_ : step;
    }
    TraceEvent& event = *open_;
    event.last_row = row;
    event.last_step = step;
    event.columns = std::max(event.columns, jumped);
    if (std::abs(worst_log2) > std::abs(event.worst_log2)) {
      event.worst_log2 = worst_log2;
      event.worst_column = worst_column;
    }
    if (loss_jumped) {
      if (!event.loss_jumped) event.loss_before = loss_before;
      event.loss_peak = event.loss_jumped && *loss <= event.loss_peak
                            ? event.loss_peak
                            : *loss;
      event.loss_jumped = true;
    }
  }
  previous_step_ = step;
  return starts;
}

void EventDetector::Finish() {
  if (!open_) return;
  if (events_.size() < kMaxEvents) {
    events_.push_back(*open_);
  } else {
    ++dropped_;
  }
  open_.reset();
}

}  // namespace scalekeeper
