// Replay: several recipes live through one recorded trace, on all cores.
//
// The trace is read once, in blocks of a few MB; memory does not grow with its
// length (bins of a picture get coarser instead).
//
// Outcome: errors of the trace (trace/trace_reader.h), or of a recipe that does
// not fit its modules (Recipe::Resolve).
//
// Example:
//   SK_ASSIGN_OR_RETURN(RankedTrace trace,
//                       RankedTrace::Open({"rank0.csv", "rank1.csv"}, {}));
//   SK_ASSIGN_OR_RETURN(Recipe recipe, Recipe::Load("delayed_hybrid"));
//   SK_ASSIGN_OR_RETURN(
//       ReplayResult result,
//       Replay(&trace, {{"delayed_hybrid", recipe}}, ReplayOptions()));
//   double lost = result.recipes[0].total.loss();
#ifndef SCALEKEEPER_REPLAY_REPLAY_H_
#define SCALEKEEPER_REPLAY_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recipe/recipe.h"
#include "replay/event_detector.h"
#include "replay/rank_shares.h"
#include "replay/recipe_replay.h"
#include "replay/slot_statistics.h"
#include "replay/step_bins.h"
#include "trace/ranked_trace.h"

namespace scalekeeper {

// A recipe under the name that results carry.
struct LabeledRecipe {
  std::string label;
  Recipe recipe;
};

struct ReplayOptions {
  // Of cores; 0: all that the machine has.
  int threads = 0;
  // Keep what a picture needs: extremes of headroom, scale, amax and loss.
  bool bins = false;
  // Rows, counted from 0, that are counted apart (RecipeResult::held_out).
  std::function<bool(size_t)> held_out;
  // Called with each block and, for the first recipe alone, what rank 0
  // multiplied with (RecipeReplay::scales). An error ends the replay.
  std::function<absl::Status(const TraceBlock&, const std::vector<float>&)>
      scales;
  // Called between blocks with the rows done so far.
  std::function<void(size_t)> progress;
};

// How long a recipe's scales took to fit again after an event.
struct EventRecovery {
  int64_t judged = 0;         // slots that were followed
  int64_t not_recovered = 0;  // until the next event or the trace's end
  int64_t median_steps = 0;   // of those that recovered
  int64_t max_steps = 0;
  size_t slowest = 0;  // the column that took max_steps
};

struct RecipeResult {
  std::string label;
  Recipe recipe;
  std::vector<SlotStatistics> slots;      // per column
  std::vector<Policy> policies;           // per column, at the trace's end
  std::vector<bool> judged;               // per column: has a scale to judge
  SlotStatistics total;                   // of all rows that are not held out
  SlotStatistics held_out;                // of the others
  std::vector<EventRecovery> recoveries;  // per event, the first few
  StepBins headroom, scale;               // log2; with ReplayOptions::bins

  size_t judged_count() const;
};

struct ReplayResult {
  TraceHeader header;
  size_t ranks = 0;
  int64_t steps = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t histograms = 0;
  int64_t non_finite = 0;  // amaxes of inf or NaN, on any rank
  std::vector<RecipeResult> recipes;
  std::vector<TraceEvent> events;
  RankShares rank_shares{0, 0};
  // With ReplayOptions::bins: log2 of the reduced amax per column; the loss, of
  // column 0; the program's numbers of the steps that begin a bin.
  StepBins amax, loss;
  std::vector<int64_t> bin_steps;
  std::vector<std::string> warnings;
};

// At least one recipe.
absl::StatusOr<ReplayResult> Replay(RankedTrace* trace,
                                    const std::vector<LabeledRecipe>& recipes,
                                    const ReplayOptions& options);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_REPLAY_H_
