// What every command that reads a recipe does.
#ifndef SCALEKEEPER_TOOLS_LOAD_RECIPE_H_
#define SCALEKEEPER_TOOLS_LOAD_RECIPE_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalekeeper {

// Prints the status's lines to `err` and returns the exit code for it: 1 when
// the recipe has faults (InvalidArgument), 2 when a file cannot be read.
int ReportStatus(const absl::Status& status, std::ostream& err);

// One module name a line; blank lines and lines that start with '#' are
// skipped, spaces around a name dropped. Fails, naming file and line, when the
// file cannot be read, has no names, the same one twice, or is not UTF-8; never
// with InvalidArgument, so that ReportStatus tells it from a faulty recipe.
absl::StatusOr<std::vector<std::string>> ReadModuleNames(
    const std::string& path);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_LOAD_RECIPE_H_
