// How two recipes differ in what they do.
#ifndef SCALEKEEPER_RECIPE_RECIPE_DIFF_H_
#define SCALEKEEPER_RECIPE_RECIPE_DIFF_H_

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace scalekeeper {

struct FieldDifference {
  std::string path;                 // EffectiveField::path
  std::optional<std::string> a, b;  // values; unset: the recipe has no such
                                    // field
};

// "defaults.input.delayed.margin: 0 -> 1"; "(none)" for an unset value.
std::string Describe(const FieldDifference& difference);

// Field by field, with `all`, inheritance and defaults worked out; name and
// description do not count. The fields of `a` first. Empty exactly when the
// fingerprints are equal.
std::vector<FieldDifference> DifferingFields(const Recipe& a, const Recipe& b);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_RECIPE_DIFF_H_
