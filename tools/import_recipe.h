// Recipes of other stacks' options.
//
// What an option says is in the recipe or refused by name: an option that is
// not known, has a value that its own stack does not take, or would have no
// effect there. Options that are no business of a recipe become notes.
//
// Example:
//   SK_ASSIGN_OR_RETURN(
//       ImportedRecipe recipe,
//       ImportMegatron({"--fp8-format", "hybrid", "--fp8-margin", "1"},
//                      kMegatronLayers));
//   recipe.text;   // defaults { input { format: E4M3 delayed { ...
#ifndef SCALEKEEPER_TOOLS_IMPORT_RECIPE_H_
#define SCALEKEEPER_TOOLS_IMPORT_RECIPE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scalekeeper {

struct ImportedRecipe {
  std::string text;                // a recipe file
  std::vector<std::string> notes;  // what it does not hold
};

// Megatron's names: "decoder.layers.0.mlp.linear_fc1".
inline constexpr absl::string_view kMegatronLayers =
    R"((?:.*\.)?layers\.(\d+)\..*)";

// Megatron-LM's flags of FP8 and FP4, as on a command line: "--fp8-margin", "1"
// or "--fp8-margin=1". `layers` is the pattern of `layers` rules
// (proto/recipe.proto), for --first-last-layers-bf16. InvalidArgument naming
// the flag.
absl::StatusOr<ImportedRecipe> ImportMegatron(
    absl::Span<const std::string> flags, absl::string_view layers);

// TransformerEngine's DelayedScaling: "margin=0", "fp8_format=HYBRID",
// "amax_compute_algo=max" ..., or all of them as Python prints the object.
absl::StatusOr<ImportedRecipe> ImportTransformerEngine(
    absl::Span<const std::string> options);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_IMPORT_RECIPE_H_
