#include "recipe/recipe_diff.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {
namespace {

std::map<absl::string_view, const EffectiveField*> ByPath(
    const Recipe& recipe) {
  std::map<absl::string_view, const EffectiveField*> fields;
  for (const EffectiveField& f : recipe.effective_fields()) fields[f.path] = &f;
  return fields;
}

}  // namespace

std::string Describe(const FieldDifference& difference) {
  return absl::StrCat(difference.path, ": ", difference.a.value_or("(none)"),
                      " -> ", difference.b.value_or("(none)"));
}

std::vector<FieldDifference> DifferingFields(const Recipe& a, const Recipe& b) {
  const auto in_a = ByPath(a), in_b = ByPath(b);
  std::vector<FieldDifference> differences;
  for (const EffectiveField& field : a.effective_fields()) {
    const auto other = in_b.find(field.path);
    if (other == in_b.end()) {
      if (!field.is_default) {
        differences.push_back({field.path, field.value, std::nullopt});
      }
    } else if (field.value != other->second->value) {
      differences.push_back({field.path, field.value, other->second->value});
    }
  }
  for (const EffectiveField& field : b.effective_fields()) {
    if (field.is_default || in_a.count(field.path) != 0) continue;
    differences.push_back({field.path, std::nullopt, field.value});
  }
  return differences;
}

}  // namespace scalekeeper
