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
    // Of largest / smallest amax of a step, of finite ones: the product is that
    // of all but the ones in product_log2.
    double product = 1;
    double product_log2 = 0;
    double max_ratio = 1;

    double log2_sum() const { return product_log2 + std::log2(product); }
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
    // At most 2^277, so that a product of two is no infinity.
    const double ratio = static_cast<double>(FloatFromBits(max)) /
                         static_cast<double>(FloatFromBits(min));
    entry.product *= ratio;
    entry.max_ratio = ratio > entry.max_ratio ? ratio : entry.max_ratio;
    if (entry.product > 0x1p500) {
      entry.product_log2 += std::log2(entry.product);
      entry.product = 1;
    }
  }

  size_t ranks_;
  std::vector<int64_t> largest_;  // [column][rank]
  std::vector<Entry> entries_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_RANK_SHARES_H_
