// Replays recorded amaxes under a recipe: the scales that rank 0 would use.
//
// One RecipeState lives through the trace, so the update is the library's own.
// The amax of a step is the maximum over the ranks' traces where the recipe
// reduces, rank 0's own where it does not; phases follow the trace's steps.
#ifndef SCALEKEEPER_TOOLS_SIMULATE_H_
#define SCALEKEEPER_TOOLS_SIMULATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recipe/recipe.h"
#include "tools/trace_csv.h"

namespace scalekeeper {

struct Simulation {
  // CSV: step,<the trace's quantizers>; per cell the scale that rank 0 uses at
  // that step, before its update (%.9g). Empty for high precision, and for
  // current scaling where rank 0 observed nothing.
  std::string scales_csv;
  // Over the cells with a scale and a finite amax on rank 0: those whose
  // amax * scale is above the format's maximum.
  int64_t scaled = 0;
  int64_t saturated = 0;
  // Over the trace: cells with an infinite or NaN amax, on any rank.
  int64_t non_finite = 0;
};

// `ranks` come from ReadTraceCsvs; at least one.
absl::StatusOr<Simulation> Simulate(const Recipe& recipe,
                                    absl::Span<const Trace> ranks);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_SIMULATE_H_
