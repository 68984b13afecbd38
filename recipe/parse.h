// Recipe text (protobuf text format) -> RecipeSpec and source positions.
#ifndef SCALEKEEPER_RECIPE_PARSE_H_
#define SCALEKEEPER_RECIPE_PARSE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "recipe/source_map.h"
#include "recipe/spec.h"

namespace scalekeeper {

// Longer texts are refused: no person wrote them.
inline constexpr size_t kMaxRecipeBytes = size_t{4} << 20;

struct ParsedRecipe {
  RecipeSpec spec;
  SourceMap source;
  // Faults that only the text shows, to be reported with those of the values:
  // field path and message.
  std::vector<std::pair<std::string, std::string>> faults;
};

// InvalidArgument with the one syntax fault, "file:line:column: error: ...".
// Values are not checked here. A UTF-8 byte order mark and CRLF are accepted.
absl::StatusOr<ParsedRecipe> ParseRecipeText(absl::string_view text,
                                             absl::string_view file);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_PARSE_H_
