// The module that a pattern probably meant.
#ifndef SCALEKEEPER_RECIPE_NEAREST_MODULE_H_
#define SCALEKEEPER_RECIPE_NEAREST_MODULE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scalekeeper {

// The module whose name is the fewest edits away from what `pattern` spells
// out, with groups, classes and repetitions standing for any text; "" when none
// is near. Looks at no more than `budget` modules and takes them off it.
std::string NearestModule(absl::string_view pattern,
                          absl::Span<const std::string> modules,
                          size_t& budget);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_NEAREST_MODULE_H_
