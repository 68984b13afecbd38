#include "recipe/recipe.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/status_macros.h"
#include "recipe/check.h"
#include "recipe/effective_fields.h"
#include "recipe/normal_form.h"
#include "recipe/parse.h"
#include "recipe/presets.h"
#include "recipe/print.h"
#include "recipe/resolve.h"
#include "recipe/source_map.h"

namespace scalekeeper {

struct Recipe::Rep {
  RecipeSpec spec;
  SourceMap source;
  NormalRecipe normal;
  std::string name;
  std::string description;
  std::vector<int64_t> from_steps;  // what can be active, in order
  std::vector<int> active;          // index into normal.phases, or -1
  std::vector<EffectiveField> fields;
  std::string fingerprint;
  std::vector<std::string> group_names;
};

Recipe::Recipe(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}

absl::StatusOr<Recipe> Recipe::Load(absl::string_view preset_or_path) {
  const absl::StatusOr<std::string> text =
      ReadFile(std::string(preset_or_path), kMaxRecipeBytes + 1);
  if (text.ok()) return Parse(*text, preset_or_path);
  if (text.status().code() != absl::StatusCode::kNotFound) {
    return text.status();
  }
  absl::StatusOr<std::string> preset = PresetText(preset_or_path);
  if (!preset.ok()) return preset.status();
  return Parse(*preset, preset_or_path);
}

absl::StatusOr<Recipe> Recipe::Parse(absl::string_view text,
                                     absl::string_view source) {
  SK_ASSIGN_OR_RETURN(ParsedRecipe parsed, ParseRecipeText(text, source));
  auto rep = std::make_shared<Rep>();
  rep->spec = std::move(parsed.spec);
  rep->source = std::move(parsed.source);
  Faults faults(rep->source);
  for (const auto& [path, message] : parsed.faults) faults.Add(path, message);
  return Build(std::move(rep), std::move(faults));
}

absl::StatusOr<Recipe> Recipe::Create(const RecipeSpec& spec) {
  auto rep = std::make_shared<Rep>();
  rep->spec = spec;
  Faults faults(rep->source);
  return Build(std::move(rep), std::move(faults));
}

absl::StatusOr<Recipe> Recipe::Build(std::shared_ptr<Rep> rep, Faults faults) {
  CheckSpec(rep->spec, faults);
  rep->normal = Normalize(rep->spec, rep->source);
  CheckHiddenRules(rep->normal, faults);
  CheckOperands(rep->normal, faults);
  SK_RETURN_IF_ERROR(faults.ToStatus());
  rep->name = rep->spec.name.value_or("");
  rep->description = rep->spec.description.value_or("");
  const std::vector<NormalPhase>& phases = rep->normal.phases;
  if (phases.empty() || phases[0].from_step > 0) {
    rep->from_steps.push_back(0);
    rep->active.push_back(-1);
  }
  for (size_t i = 0; i < phases.size(); ++i) {
    rep->from_steps.push_back(phases[i].from_step);
    rep->active.push_back(static_cast<int>(i));
  }
  rep->fields = EffectiveFields(rep->normal);
  rep->fingerprint = FingerprintOf(rep->fields);
  rep->group_names = GroupNames(rep->normal);
  return Recipe(std::move(rep));
}

std::vector<std::string> Recipe::PresetNames() {
  return scalekeeper::PresetNames();
}

absl::StatusOr<std::string> Recipe::PresetText(absl::string_view name) {
  return scalekeeper::PresetText(name);
}

const std::string& Recipe::name() const { return rep_->name; }
const std::string& Recipe::description() const { return rep_->description; }

absl::Span<const int64_t> Recipe::phase_from_steps() const {
  return rep_->from_steps;
}

int Recipe::ActivePhase(int64_t step) const {
  const std::vector<int64_t>& steps = rep_->from_steps;
  const auto next = std::upper_bound(steps.begin(), steps.end(), step);
  return std::max(0, static_cast<int>(next - steps.begin()) - 1);
}

absl::StatusOr<ResolvedModules> Recipe::Resolve(
    absl::Span<const std::string> modules) const {
  return ResolveModules(rep_->normal, rep_->source, rep_->active, modules,
                        IdleRules::kFault);
}

absl::StatusOr<ResolvedModules> Recipe::ResolveSome(
    absl::Span<const std::string> modules) const {
  return ResolveModules(rep_->normal, rep_->source, rep_->active, modules,
                        IdleRules::kAllowed);
}

const std::vector<std::string>& Recipe::group_names() const {
  return rep_->group_names;
}

const UpdatePolicy& Recipe::update() const { return rep_->normal.update; }

std::string Recipe::ToString() const { return PrintSpec(rep_->spec); }

const std::string& Recipe::fingerprint() const { return rep_->fingerprint; }

const std::vector<EffectiveField>& Recipe::effective_fields() const {
  return rep_->fields;
}

const RecipeSpec& Recipe::spec() const { return rep_->spec; }

}  // namespace scalekeeper
