// The table that the build makes from recipe/presets/*.textproto.
#ifndef SCALEKEEPER_RECIPE_PRESET_TABLE_H_
#define SCALEKEEPER_RECIPE_PRESET_TABLE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scalekeeper {

struct PresetEntry {
  absl::string_view name;  // "delayed_hybrid"
  absl::string_view text;  // the whole file
};

// Sorted by name.
absl::Span<const PresetEntry> PresetTable();

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_PRESET_TABLE_H_
