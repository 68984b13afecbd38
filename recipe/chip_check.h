// Formats that a chip cannot multiply, found before anything is allocated.
//
// A GEMM of a module conflicts with a chip when Matmul would refuse its
// operands there: the chip does not multiply the pair of scalings natively
// (recipe/gemm_capability.h), and the recipe neither lets it be emulated nor
// keeps that GEMM in high precision. RecipeState::Freeze refuses such recipes
// on a GPU; `scalekeeper lint --chip=sm_90` finds them without one.
//
// Threads: any; a pure function.
//
// Example:
//   SK_ASSIGN_OR_RETURN(ResolvedModules resolved, recipe.Resolve({"fc1"}));
//   ChipCheckOptions options;
//   options.compute_capability = 90;
//   CheckChip(recipe.phase_from_steps(), {"fc1"}, resolved, options);
//       // FailedPrecondition: module "fc1": compute capability 9.0 does not
//       // multiply input (mxfp8 E4M3) x weight (mxfp8 E4M3) in fprop (10.0 and
//       // newer do), want matmul { fprop { emulate: true } } to compute ...
#ifndef SCALEKEEPER_RECIPE_CHIP_CHECK_H_
#define SCALEKEEPER_RECIPE_CHIP_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "recipe/resolved_modules.h"

namespace scalekeeper {

struct ChipCheckOptions {
  int compute_capability = 0;             // 10 * major + minor
  absl::Span<const Gemm> gemms = kGemms;  // those that the program computes
  // Per module, whether it has GEMMs; null: all have. Borrowed.
  const std::vector<bool>* has_gemms = nullptr;
};

// All conflicts at once, a line for each: GEMM, both roles with their formats,
// the chip and the switch, and the modules that share the conflict (the first
// three by name, the others as a number; the phases but the first by the step
// from which they are active). FailedPrecondition. `modules` and `phase_steps`
// are those that `resolved` was made of and for.
absl::Status CheckChip(absl::Span<const int64_t> phase_steps,
                       absl::Span<const std::string> modules,
                       const ResolvedModules& resolved,
                       const ChipCheckOptions& options);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_CHIP_CHECK_H_
