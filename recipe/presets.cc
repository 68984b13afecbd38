#include "recipe/presets.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
  return absl::NotFoundError(
      absl::StrCat(name, ": no such file, and no such preset; presets are ",
                   absl::StrJoin(PresetNames(), ", ")));
}

}  // namespace scalekeeper
