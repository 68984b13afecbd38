// RecipeSpec -> canonical text.
#ifndef SCALEKEEPER_RECIPE_PRINT_H_
#define SCALEKEEPER_RECIPE_PRINT_H_

#include <string>

#include "recipe/spec.h"

namespace scalekeeper {

// Text that parses into an equal spec.
std::string PrintSpec(const RecipeSpec& spec);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_PRINT_H_
