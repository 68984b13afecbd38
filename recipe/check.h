// The checks of a recipe that need no module names.
#ifndef SCALEKEEPER_RECIPE_CHECK_H_
#define SCALEKEEPER_RECIPE_CHECK_H_

#include <cstdint>
#include <string>

#include "recipe/field_limits.h"
#include "recipe/normal_form.h"
#include "recipe/source_map.h"
#include "recipe/spec.h"

namespace scalekeeper {

// Ranges, required fields, combinations without effect, patterns.
void CheckSpec(const RecipeSpec& spec, Faults& faults);

// The policies of one message, a part of CheckSpec: `prefix` is the message's
// path with a dot at the end; they inherit from `defaults` (may be null).
void CheckPolicies(const std::string& prefix, const RolePoliciesSpec& spec,
                   const RolePoliciesSpec* defaults, Faults& faults);

// "got 33, want 0..32", the value as the text spells it.
void AddRangeFault(const std::string& path, int64_t value,
                   const IntegerLimits& limits, Faults& faults);

// Rules that an earlier one hides.
void CheckHiddenRules(const NormalRecipe& recipe, Faults& faults);

// Operands that one GEMM cannot have together (FindConflict), as far as that is
// certain without the names.
void CheckOperands(const NormalRecipe& recipe, Faults& faults);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_CHECK_H_
