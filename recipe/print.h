// RecipeSpec -> canonical text.
#ifndef SCALEKEEPER_RECIPE_PRINT_H_
#define SCALEKEEPER_RECIPE_PRINT_H_

#include <string>

#include "recipe/spec.h"

namespace scalekeeper {

// Text that parses into an equal spec.
std::string PrintSpec(const RecipeSpec& spec);

// The fewest digits that read back as the same double; "inf", "-inf", "nan".
std::string ShortestDouble(double value);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_PRINT_H_
