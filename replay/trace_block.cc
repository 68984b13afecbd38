#include "replay/trace_block.h"

#include <algorithm>

#include "base/status_macros.h"
#include "numerics/amax.h"

namespace scalekeeper {
namespace {

// Amaxes that a block holds, about; and its rows.
constexpr size_t kBlockCells = size_t{1} << 18;
constexpr size_t kMaxRows = 512;

}  // namespace

BlockReader::BlockReader(RankedTrace* trace, Together together)
    : trace_(trace), together_(std::move(together)) {}

absl::StatusOr<bool> BlockReader::Next(TraceBlock* block) {
  block->columns = trace_->header().columns.size();
  block->ranks = trace_->ranks();
  block->rows_before += block->rows;
  for (const uint8_t starts : block->starts_event) {
    block->events_before += starts;
  }
  block->rows = 0;
  block->steps.clear();
  block->losses.clear();
  block->histograms.clear();
  const size_t cells = block->columns * block->ranks;
  block->rows_capacity =
      std::clamp<size_t>(kBlockCells / cells, size_t{1}, kMaxRows);
  block->reduced.resize(block->rows_capacity * block->columns);
  block->finite.resize(block->rows_capacity * block->columns);
  block->own.resize(block->rows_capacity * cells);
  while (!at_end_ && block->rows < block->rows_capacity) {
    if (!has_row_) {
      SK_ASSIGN_OR_RETURN(has_row_, trace_->Next(&row_));
      if (!has_row_) {
        at_end_ = true;
        break;
      }
    }
    if (block->rows > 0 && !together_(block->steps.back(), row_[0].step)) break;
    Append(block);
    has_row_ = false;
  }
  block->starts_event.assign(block->rows, 0);
  block->held_out.assign(block->rows, 0);
  return block->rows > 0;
}

void BlockReader::Append(TraceBlock* block) {
  const size_t row = block->rows++;
  block->steps.push_back(row_[0].step);
  block->losses.push_back(row_[0].loss);
  std::vector<RankHistogram>& histograms = block->histograms.emplace_back();
  uint32_t* const reduced = block->reduced.data() + row * block->columns;
  uint32_t* const finite = block->finite.data() + row * block->columns;
  std::fill(reduced, reduced + block->columns, 0);
  std::fill(finite, finite + block->columns, 0);
  for (size_t rank = 0; rank < block->ranks; ++rank) {
    const std::vector<uint32_t>& amaxes = row_[rank].amax_bits;
    uint32_t* const own = block->own.data() +
                          (rank * block->rows_capacity + row) * block->columns;
    for (size_t c = 0; c < block->columns; ++c) {
      const bool observed = amaxes[c] != kNotObserved;
      const uint32_t bits = observed ? amaxes[c] & kFloatMagnitudeMask : 0;
      own[c] = observed ? bits : kNotObserved;
      reduced[c] = MaxBits(reduced[c], bits);
      finite[c] += bits - 1 < kFloatInfBits - 1 ? 1u : 0u;
    }
    for (ColumnHistogram& entry : row_[rank].histograms) {
      histograms.push_back({rank, std::move(entry)});
    }
  }
  std::stable_sort(histograms.begin(), histograms.end(),
                   [](const RankHistogram& a, const RankHistogram& b) {
                     return a.entry.column < b.entry.column;
                   });
}

}  // namespace scalekeeper
