// Which rank had the largest amax, per column.
#ifndef SCALEKEEPER_REPLAY_RANK_SHARES_H_
#define SCALEKEEPER_REPLAY_RANK_SHARES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "numerics/amax.h"
#include "replay/trace_block.h"

namespace scalekeeper {

class RankShares {
 public:
  RankShares(size_t columns, size_t ranks)
      : ranks_(ranks), largest_(columns * ranks), entries_(columns) {}

  struct Entry {
    int64_t steps = 0;  // in which at least two ranks had an amax > 0
    int64_t equal = 0;  // of these, all ranks had the same
    // log2(largest / smallest amax of a step), of finite ones.
    double log2_sum = 0;
    double log2_max = 0;
  };

  void Add(const TraceBlock& block) {
    if (ranks_ < 2) return;
    for (size_t row = 0; row < block.rows; ++row) {
      for (size_t c = 0; c < block.columns; ++c) AddCell(block, row, c);
    }
  }

  size_t ranks() const { return ranks_; }
  const Entry& entry(size_t column) const { return entries_[column]; }
  // Steps in which that rank's amax was larger than that of every other.
  int64_t largest(size_t column, size_t rank) const {
    return largest_[column * ranks_ + rank];
  }

 private:
  void AddCell(const TraceBlock& block, size_t row, size_t c) {
    const uint32_t max = block.reduced[block.at(row, c)];
    if (max == 0) return;
    uint32_t min = UINT32_MAX;
    size_t observed = 0;
    size_t holders = 0;
    size_t holder = 0;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const uint32_t bits = block.own_at(rank, row, c);
      if (bits == kNotObserved || bits == 0) continue;
      ++observed;
      min = bits < min ? bits : min;
      if (bits == max) {
        ++holders;
        holder = rank;
      }
    }
    if (observed < 2) return;
    Entry& entry = entries_[c];
    ++entry.steps;
    if (min == max) {
      ++entry.equal;
      return;
    }
    if (holders == 1) ++largest_[c * ranks_ + holder];
    if (IsNonFiniteAmax(max)) return;
    const double log2 = std::log2(static_cast<double>(FloatFromBits(max)) /
                                  static_cast<double>(FloatFromBits(min)));
    entry.log2_sum += log2;
    entry.log2_max = log2 > entry.log2_max ? log2 : entry.log2_max;
  }

  size_t ranks_;
  std::vector<int64_t> largest_;  // [column][rank]
  std::vector<Entry> entries_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_RANK_SHARES_H_
