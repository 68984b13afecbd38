// TraceBlock: some consecutive steps of all ranks, laid out for replaying.
#ifndef SCALEKEEPER_REPLAY_TRACE_BLOCK_H_
#define SCALEKEEPER_REPLAY_TRACE_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/ranked_trace.h"
#include "trace/trace.h"

namespace scalekeeper {

struct RankHistogram {
  size_t rank = 0;
  ColumnHistogram entry;
};

struct TraceBlock {
  size_t columns = 0;
  size_t ranks = 0;
  size_t rows = 0;

  // Per row.
  std::vector<int64_t> steps;
  std::vector<std::optional<double>> losses;           // rank 0's
  std::vector<std::vector<RankHistogram>> histograms;  // sorted by column
  std::vector<uint8_t> starts_event;  // an event (replay/event_detector.h) does

  std::vector<uint8_t> held_out;  // counted apart

  size_t events_before = 0;  // that started before the block
  size_t rows_before = 0;

  // Per row and column.
  std::vector<uint32_t> reduced;  // max over ranks, as bits; 0: not observed
  std::vector<uint32_t> finite;   // ranks with a finite amax > 0
  // Per rank, row and column: bits, or kNotObserved.
  std::vector<uint32_t> own;

  size_t at(size_t row, size_t column) const { return row * columns + column; }
  uint32_t own_at(size_t rank, size_t row, size_t column) const {
    return own[(rank * rows_capacity + row) * columns + column];
  }

  size_t rows_capacity = 0;
};

// Cuts a trace into blocks.
class BlockReader {
 public:
  // Whether two steps may be of one block.
  using Together = std::function<bool(int64_t, int64_t)>;

  // `trace` is borrowed.
  BlockReader(RankedTrace* trace, Together together);

  // The next block, of at least one row and about 4 MB; false after the last.
  // Give it the same object each time.
  absl::StatusOr<bool> Next(TraceBlock* block);

 private:
  void Append(TraceBlock* block);

  RankedTrace* trace_;
  Together together_;
  std::vector<TraceStep> row_;  // read, not given out
  bool has_row_ = false;
  bool at_end_ = false;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_TRACE_BLOCK_H_
