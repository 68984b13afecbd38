// RecipeReplay: one recipe's slots living through a trace.
//
// The state is the library's own arena, slot table and phases, and each update
// is the functions of amax/update.h that RecipeState calls: scales are those of
// a live run, bit for bit. What a run does not need is left out: messages,
// agreement between ranks, undo.
//
// The amax of a step is the maximum over the ranks where the recipe reduces.
// Where it does not, rank 0's state is followed, and rank 0's tensors count.
//
// What can be judged from amaxes: `delayed` and `current` scaling. Rows and
// blocks have scales of their own, of which a trace knows nothing.
//
// Threads: Run of different chunks at once; everything else from one.
// Order of calls: Create; for each block BeginBlock, then Run of every chunk.
#ifndef SCALEKEEPER_REPLAY_RECIPE_REPLAY_H_
#define SCALEKEEPER_REPLAY_RECIPE_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "amax/arena.h"
#include "amax/phase_switcher.h"
#include "amax/slot_table.h"
#include "recipe/recipe.h"
#include "replay/slot_statistics.h"
#include "replay/step_bins.h"
#include "replay/trace_block.h"
#include "trace/trace.h"

namespace scalekeeper {

class RecipeReplay {
 public:
  // Columns of a chunk: their rings share lines of memory.
  static constexpr size_t kChunkColumns = kRingStride;
  // Events whose recovery is followed.
  static constexpr size_t kTrackedEvents = 16;
  // Of recoveries: the slot was still off when the next event or the end came.
  static constexpr int32_t kNotRecovered = -1;
  static constexpr int32_t kNotJudged = -2;

  struct Options {
    size_t bins = 0;  // for headroom and scale over the steps; 0: none
    bool keep_scales = false;
    bool hold_out = false;  // rows that the block says are held out
  };

  // Recipe::Resolve's errors.
  static absl::StatusOr<std::unique_ptr<RecipeReplay>> Create(
      const Recipe& recipe, const TraceHeader& header, int64_t first_step,
      const Options& options);

  size_t chunks() const {
    return (columns_.size() + kChunkColumns - 1) / kChunkColumns;
  }

  // All rows of the block are of one phase.
  void BeginBlock(const TraceBlock& block);
  void Run(const TraceBlock& block, size_t chunk);

  const std::vector<SlotStatistics>& statistics() const { return statistics_; }
  // Of the rows that are held out, which `statistics` leaves out; empty without
  // Options::hold_out.
  const std::vector<SlotStatistics>& held_out() const { return held_out_; }
  // The column's policy in the phase of the last block.
  const Policy& policy(size_t column) const;
  // Whether the column had a scale that a trace can judge in some phase.
  bool judged(size_t column) const { return judged_[column] != 0; }

  // keep_scales: per row of the last block and column, what rank 0 multiplied
  // with; NaN where there was nothing.
  const std::vector<float>& scales() const { return scales_; }
  // log2(format_max / (amax * scale)): 0 uses the format's whole range, below 0
  // saturates.
  const StepBins& headroom() const { return headroom_; }
  const StepBins& scale_bins() const { return scale_bins_; }

  // Per event and column: steps from the event's first jump on until the scale
  // fitted again for 8 steps in a row (no saturation, staleness at least a
  // quarter of its median before the event), or one of the constants above.
  const std::vector<std::vector<int32_t>>& recoveries() const {
    return recoveries_;
  }

 private:
  struct Column {
    uint32_t column = 0;  // of the trace
    int32_t slot = 0;     // of the table
    int32_t arena = -1;   // of the arena
    // Of the phase.
    Scaling scaling = Scaling::kHighPrecision;
    Format format = Format::kE4M3;
    float format_max = 0;
    float bound = 0;  // a product above it saturates
    int margin = 0;
    bool reduced = false;
    float amax_epsilon = 0;
    bool power_2_scale = false;
    bool amax_group = false;
  };
  struct Recovery {
    int64_t start = -1;  // row of the event's first jump; -1: none followed
    size_t event = 0;
    int32_t good = 0;
    float least_staleness = 0;
  };

  explicit RecipeReplay(SlotTable table) : table_(std::move(table)) {}

  void EnterPhase(int phase);
  float RankScale(const TraceBlock& block, const Column& column, size_t row,
                  size_t rank) const;
  void RunCell(const TraceBlock& block, const Column& column, size_t row);
  void CountRanks(const TraceBlock& block, const Column& column, size_t row,
                  SlotStatistics* statistics, bool* saturated) const;
  void CountHistograms(const TraceBlock& block, const Column& column,
                       size_t row, SlotStatistics* statistics) const;
  void NoteBins(const TraceBlock& block, const Column& column, size_t row,
                bool one_scale);
  // The reduced amax that this step's update takes; 0: none.
  uint32_t Due(size_t column, int64_t step, uint32_t reduced);
  void StartRecovery(const Column& column, size_t row, size_t event);
  void FollowRecovery(const Column& column, size_t row, bool saturated,
                      float staleness);

  std::vector<int64_t> phase_from_steps_;
  SlotTable table_;
  std::unique_ptr<Arena> arena_;
  PhaseSwitcher phases_;
  int phase_ = -1;
  bool keep_scales_ = false;
  UpdatePolicy update_;
  std::vector<uint32_t> pending_;  // per column, since the last reduction
  std::vector<uint32_t> held_;     // reduced, becomes a scale a step later

  std::vector<Column> columns_;  // in the arena's order
  std::vector<SlotStatistics> statistics_;
  std::vector<SlotStatistics> held_out_;
  std::vector<uint8_t> judged_;
  std::vector<float> scales_;
  StepBins headroom_;
  StepBins scale_bins_;
  std::vector<Recovery> recovery_;
  std::vector<std::vector<int32_t>> recoveries_;
  std::vector<int32_t> slot_of_column_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_RECIPE_REPLAY_H_
