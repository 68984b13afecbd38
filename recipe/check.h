// The checks of a recipe that need no module names.
#ifndef SCALEKEEPER_RECIPE_CHECK_H_
#define SCALEKEEPER_RECIPE_CHECK_H_

#include "recipe/normal_form.h"
#include "recipe/source_map.h"
#include "recipe/spec.h"

namespace scalekeeper {

// Ranges, required fields, combinations without effect, patterns.
void CheckSpec(const RecipeSpec& spec, Faults& faults);

// Rules that an earlier one hides.
void CheckHiddenRules(const NormalRecipe& recipe, Faults& faults);

// Two E5M2 operands in one GEMM, as far as that is certain without the names.
void CheckOperandFormats(const NormalRecipe& recipe, Faults& faults);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_CHECK_H_
