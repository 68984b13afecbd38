// StepBins: what a value did over a trace of any length, in a fixed number of
// bins of equal numbers of rows: the least and the largest of each bin.
//
// When rows outgrow the bins, neighbours are merged and a bin holds twice the
// rows: memory is fixed, the picture keeps its shape. Not observed: no entry.
//
// Threads: Reserve from one; Note of different columns from several.
#ifndef SCALEKEEPER_REPLAY_STEP_BINS_H_
#define SCALEKEEPER_REPLAY_STEP_BINS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace scalekeeper {

struct Extremes {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();

  bool empty() const { return low > high; }
  void Note(float value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void Add(const Extremes& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

class StepBins {
 public:
  StepBins() = default;
  // `bins` is even.
  StepBins(size_t columns, size_t bins) : bins_(bins), cells_(columns * bins) {}

  // Before rows up to `rows` are noted.
  void Reserve(size_t rows) {
    while (bins_ > 0 && rows > bins_ * rows_per_bin_) {
      for (size_t begin = 0; begin < cells_.size(); begin += bins_) {
        for (size_t b = 0; b < bins_ / 2; ++b) {
          Extremes merged = cells_[begin + 2 * b];
          merged.Add(cells_[begin + 2 * b + 1]);
          cells_[begin + b] = merged;
        }
        std::fill(
            cells_.begin() + static_cast<std::ptrdiff_t>(begin + bins_ / 2),
            cells_.begin() + static_cast<std::ptrdiff_t>(begin + bins_),
            Extremes());
      }
      rows_per_bin_ *= 2;
    }
    rows_ = std::max(rows_, rows);
  }

  bool enabled() const { return bins_ > 0; }
  void Note(size_t column, size_t row, float value) {
    cells_[column * bins_ + row / rows_per_bin_].Note(value);
  }

  size_t rows() const { return rows_; }
  size_t rows_per_bin() const { return rows_per_bin_; }
  // Bins with rows.
  size_t used() const { return (rows_ + rows_per_bin_ - 1) / rows_per_bin_; }
  const Extremes& at(size_t column, size_t bin) const {
    return cells_[column * bins_ + bin];
  }

 private:
  size_t bins_ = 0;
  size_t rows_ = 0;
  size_t rows_per_bin_ = 1;
  std::vector<Extremes> cells_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_STEP_BINS_H_
