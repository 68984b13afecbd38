// Sweep: the recipes that differ from one in options of delayed scaling.
//
// Example:
//   Sweep({"delayed_hybrid", recipe}, {{"margin", {"0", "1"}}})
//       // "delayed_hybrid margin=0", "delayed_hybrid margin=1"
#ifndef SCALEKEEPER_REPLAY_SWEEP_H_
#define SCALEKEEPER_REPLAY_SWEEP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "replay/replay.h"

namespace scalekeeper {

struct SweepAxis {
  // amax_history_len, margin or amax_compute_algo of delayed policies; interval
  // or staleness of the recipe's update.
  std::string option;
  std::vector<std::string> values;
};

// "margin=0,1,2". InvalidArgument naming the option or value.
absl::StatusOr<SweepAxis> ParseSweepAxis(absl::string_view text);

// Every combination of the axes' values, the first axis slowest; set in every
// delayed policy of the recipe, or in its update. InvalidArgument for a recipe
// that has none, or for a value out of range; one axis per option.
absl::StatusOr<std::vector<LabeledRecipe>> Sweep(
    const LabeledRecipe& recipe, const std::vector<SweepAxis>& axes);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_SWEEP_H_
