// The preset recipes, embedded at build time from recipe/presets/.
#ifndef SCALEKEEPER_RECIPE_PRESETS_H_
#define SCALEKEEPER_RECIPE_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

// In alphabetical order.
std::vector<std::string> PresetNames();

// The preset's text, comments included. NotFound, naming those that exist.
absl::StatusOr<std::string> PresetText(absl::string_view name);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_PRESETS_H_
