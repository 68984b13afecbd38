#include "recipe/presets.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "recipe/preset_table.h"

namespace scalekeeper {

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const PresetEntry& entry : PresetTable()) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<std::string> PresetText(absl::string_view name) {
  for (const PresetEntry& entry : PresetTable()) {
    if (entry.name == name) return std::string(entry.text);
  }
  const std::vector<std::string> names = PresetNames();
  const std::string hint = DidYouMean(name, names);
  return absl::NotFoundError(absl::StrCat(
      name, ": no such file and no such preset",
      hint.empty() ? absl::StrCat("; presets are ", absl::StrJoin(names, ", "))
                   : hint));
}

}  // namespace scalekeeper
