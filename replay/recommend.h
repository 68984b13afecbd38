// Recommend: from a trace, the delayed policies that lose least of it.
//
// Every candidate (window of 1 to 1024 steps, margin of 0 to 2 bits; for grad
// E4M3 and E5M2) lives through the whole trace; each role takes the one whose
// loss (SlotStatistics::loss) is least. A quantizer whose loss under its role's
// policy is above `worthwhile`, and which another policy more than halves, gets
// a rule of its own: another window or margin, or current scaling where that is
// allowed.
//
// Choices are made on three quarters of the steps: of every four runs of 30
// steps the last is held out, and judges. Scales live through all steps.
//
// Without histograms underflow is not seen: grad stays in E5M2 then, and
// margins look cheaper than they are.
#ifndef SCALEKEEPER_REPLAY_RECOMMEND_H_
#define SCALEKEEPER_REPLAY_RECOMMEND_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "replay/replay.h"
#include "trace/ranked_trace.h"

namespace scalekeeper {

struct RecommendOptions {
  // Whether rules may choose current scaling, which reads a tensor twice.
  bool allow_current = true;
  double worthwhile = 0.001;
  size_t max_rules = 32;
  int threads = 0;
  std::function<void(size_t)> progress;  // as of ReplayOptions
};

struct Recommendation {
  std::string text;  // a recipe file, with reasons as comments
  struct Figures {
    SlotStatistics chosen_on;
    SlotStatistics held_out;
  };
  Figures baseline;
  Figures recommended;
  size_t rules = 0;
  std::vector<std::string> warnings;

  // On the steps that were held out.
  bool better() const {
    return recommended.held_out.loss() <= baseline.held_out.loss();
  }
};

// Whether the row, counted from 0, is held out.
bool IsHeldOut(size_t row);

// `open` opens the trace anew for each of two passes; `baseline` is what the
// recommendation is compared with.
absl::StatusOr<Recommendation> Recommend(
    const std::function<absl::StatusOr<RankedTrace>()>& open,
    const LabeledRecipe& baseline, const RecommendOptions& options);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_RECOMMEND_H_
