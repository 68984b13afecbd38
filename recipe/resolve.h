// Normal form + module names -> who gets what.
#ifndef SCALEKEEPER_RECIPE_RESOLVE_H_
#define SCALEKEEPER_RECIPE_RESOLVE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recipe/normal_form.h"
#include "recipe/resolved_modules.h"
#include "recipe/source_map.h"

namespace scalekeeper {

// What a rule is that has no effect on the modules.
enum class IdleRules { kFault, kAllowed };

// `active` lists the phases to resolve: indices into recipe.phases, -1 for
// "no phase". One phase of the result per entry.
absl::StatusOr<ResolvedModules> ResolveModules(
    const NormalRecipe& recipe, const SourceMap& source,
    const std::vector<int>& active, absl::Span<const std::string> modules,
    IdleRules idle_rules);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_RESOLVE_H_
