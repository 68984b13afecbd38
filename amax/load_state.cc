#include "amax/load_state.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "amax/arena.h"
#include "amax/history.h"
#include "amax/natural_order.h"
#include "amax/recipe_state_rep.h"
#include "amax/slot_table.h"
#include "amax/update.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/scale.h"
#include "recipe/recipe_diff.h"

namespace scalekeeper {
namespace {

using internal::QuotedList;
using internal::StateAccess;

template <typename Rep>
absl::Status RequireUsable(const Rep& rep, absl::string_view call) {
  SK_RETURN_IF_ERROR(rep.RequireFrozen(call));
  SK_RETURN_IF_ERROR(rep.RequireNotPacked(call));
  return absl::OkStatus();
}

Format FormatOf(float format_max) {
  for (Format format : {Format::kE4M3, Format::kE5M2}) {
    if (FormatMax(format) == format_max) return format;
  }
  return Format::kE2M1;
}

// ---------------------------------------------------------------------- save

DelayedImage SaveDelayed(const Arena& arena, uint32_t slot) {
  const ArenaView& view = arena.view();
  const SlotDescriptor& d = view.descriptors[slot];
  ScaleOptions options;
  options.format = FormatOf(d.format_max);
  options.algo = d.algo();
  options.non_finite = d.non_finite();
  options.margin = d.margin;
  options.history_len = d.history_len;
  DelayedImage delayed;
  delayed.in_use = d.use == SlotUse::kDelayed;
  delayed.options = options;
  delayed.scale_bits = BitsFromFloat(view.scale[slot]);
  delayed.measure = view.measure[slot] != 0;
  delayed.window = internal::EntriesOf(RingOf(view, d), view.histories[slot]);
  delayed.capacity = arena.Capacity(slot);
  return delayed;
}

SlotImage SaveSlot(const SlotTable& table, const Arena& arena, int phase,
                   int32_t slot) {
  SlotImage image;
  image.name = table.name(slot);
  image.role = table.role(slot);
  image.identity = table.identity(slot);
  const uint32_t group = table.group(phase, slot);
  if (group < table.groups().size()) image.group = table.groups()[group];
  if (table.arena_index(slot) < 0) return image;
  const uint32_t index = static_cast<uint32_t>(table.arena_index(slot));
  const ArenaView& view = arena.view();
  image.amax_bits =
      view.amax[view.descriptors[index].amax_index] & kFloatMagnitudeMask;
  if (view.held != nullptr) {
    image.held_bits =
        view.held[view.descriptors[index].amax_index] & kFloatMagnitudeMask;
  }
  image.non_finite_steps = view.non_finite_steps[index];
  if (table.delayed_in_some_phase(slot)) {
    image.delayed = SaveDelayed(arena, index);
  }
  return image;
}

// ---------------------------------------------------------------------- load

// What goes where, decided before anything is touched.
struct LoadPlan {
  std::vector<const SlotImage*> images;  // per slot of the arena
  LoadReport report;
};

void CompareRecipes(const Recipe& recipe, const StateImage& image,
                    LoadReport* report) {
  if (image.recipe.empty()) {
    report->warnings.push_back(
        "the image names no recipe: the options that made its scales are "
        "assumed to be those of the present recipe");
    return;
  }
  report->same_recipe = image.recipe_fingerprint == recipe.fingerprint();
  if (report->same_recipe) return;
  const absl::StatusOr<Recipe> saved =
      Recipe::Parse(image.recipe, "recipe of the image");
  if (!saved.ok()) {
    report->warnings.push_back(absl::StrCat(
        "the image's recipe cannot be compared: ", saved.status().message()));
    return;
  }
  for (const FieldDifference& difference : DifferingFields(*saved, recipe)) {
    report->recipe_differences.push_back(Describe(difference));
  }
}

absl::Status CompareSlot(const SlotTable& table, int32_t slot,
                         const SlotImage& image) {
  if (image.role != table.role(slot)) {
    return absl::FailedPreconditionError(
        absl::StrCat("LoadState: slot ", Quoted(image.name), ": role: got ",
                     Name(image.role), ", want ", Name(table.role(slot))));
  }
  const std::string& identity = table.identity(slot);
  if (!image.identity.empty() && !identity.empty() &&
      image.identity != identity) {
    return absl::FailedPreconditionError(
        absl::StrCat("LoadState: slot ", Quoted(image.name), ": identity: got ",
                     Quoted(image.identity), ", want ", Quoted(identity)));
  }
  return absl::OkStatus();
}

absl::Status CheckLists(const LoadReport& report, const LoadOptions& options) {
  std::vector<std::string> faults;
  if (!report.missing.empty() && !options.allow_missing) {
    faults.push_back(absl::StrCat(
        "the image lacks ", QuotedList(report.missing),
        " (allow_missing makes ",
        report.missing.size() == 1 ? "it a new slot" : "them new slots", ")"));
  }
  if (!report.extra.empty() && !options.allow_extra) {
    faults.push_back(absl::StrCat("the state lacks ", QuotedList(report.extra),
                                  " of the image (allow_extra ignores ",
                                  report.extra.size() == 1 ? "it" : "them",
                                  ")"));
  }
  if (options.require_same_recipe && !report.same_recipe) {
    faults.push_back(absl::StrCat(
        "the recipes differ: ", absl::StrJoin(report.recipe_differences.empty()
                                                  ? report.warnings
                                                  : report.recipe_differences,
                                              "; ")));
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("LoadState: ", absl::StrJoin(faults, "; ")));
}

absl::StatusOr<LoadPlan> MakePlan(const Recipe& recipe, const SlotTable& table,
                                  const StateImage& image,
                                  const LoadOptions& options) {
  LoadPlan plan;
  LoadReport& report = plan.report;
  CompareRecipes(recipe, image, &report);
  if (image.numerics_version != 0 &&
      image.numerics_version != kNumericsVersion) {
    report.warnings.push_back(absl::StrCat(
        "the image's scales were made by version ", image.numerics_version,
        " of the numerics, this is ", kNumericsVersion));
  }
  const size_t phase = static_cast<size_t>(recipe.ActivePhase(image.step));
  plan.images.resize(table.arena_slots().size());
  absl::flat_hash_map<absl::string_view, int32_t> slots;
  for (int32_t i = 0; i < static_cast<int32_t>(table.size()); ++i) {
    slots[table.name(i)] = i;
  }
  for (const SlotImage& slot : image.slots) {
    const auto it = slots.find(slot.name);
    if (it == slots.end()) {
      if (slot.delayed.has_value()) report.extra.push_back(slot.name);
      continue;
    }
    const int32_t id = it->second;
    slots.erase(it);
    SK_RETURN_IF_ERROR(CompareSlot(table, id, slot));
    if (table.arena_index(id) >= 0) {
      plan.images[static_cast<size_t>(table.arena_index(id))] = &slot;
    }
    const bool delayed = table.delayed_in_some_phase(id);
    if (delayed && !slot.delayed.has_value()) {
      report.fresh.push_back(slot.name);
    } else if (!delayed && slot.delayed.has_value()) {
      report.dropped.push_back(slot.name);
    } else if (delayed && slot.delayed->options.has_value()) {
      const Policy& policy = table.policies(id)[phase];
      if (policy.scaling == Scaling::kDelayed &&
          policy.format != slot.delayed->options->format) {
        report.rescaled.push_back(slot.name);
      }
    }
  }
  for (const auto& [name, id] : slots) {
    if (table.delayed_in_some_phase(id)) report.missing.emplace_back(name);
  }
  std::sort(report.missing.begin(), report.missing.end(), NaturalLess);
  SK_RETURN_IF_ERROR(CheckLists(report, options));
  return plan;
}

}  // namespace

absl::StatusOr<StateImage> SaveState(const RecipeState& state, Stream stream) {
  auto& rep = StateAccess::rep(state);
  SK_RETURN_IF_ERROR(RequireUsable(rep, "SaveState"));
  SK_RETURN_IF_ERROR(rep.Fetch(Arena::Extent::kAll, stream));
  StateImage image;
  image.numerics_version = kNumericsVersion;
  image.recipe = rep.recipe.ToString();
  image.recipe_fingerprint = rep.recipe.fingerprint();
  const ArenaView& view = rep.arena->view();
  image.step = view.step->step;
  image.updates = rep.counters.updates;
  image.collectives = rep.counters.collectives;
  image.skipped = rep.counters.skipped;
  image.held = rep.held;
  // The same word for every group.
  image.held_skip = rep.held && OwnControl(HeldView(view), 0)[0] != 0;
  image.kept_skip = *view.kept_skip != 0;
  image.groups = rep.table.groups();
  image.slots.reserve(rep.table.size());
  for (int32_t i = 0; i < static_cast<int32_t>(rep.table.size()); ++i) {
    image.slots.push_back(
        SaveSlot(rep.table, *rep.arena, rep.phases.active_phase(), i));
  }
  SortSlots(&image);
  return image;
}

absl::StatusOr<LoadReport> LoadState(const StateImage& image,
                                     const LoadOptions& options, Stream stream,
                                     RecipeState* state) {
  auto& rep = StateAccess::rep(*state);
  SK_RETURN_IF_ERROR(RequireUsable(rep, "LoadState"));
  SK_RETURN_IF_ERROR(ValidateImage(image));
  SK_ASSIGN_OR_RETURN(LoadPlan plan,
                      MakePlan(rep.recipe, rep.table, image, options));
  SK_RETURN_IF_ERROR(rep.FetchToRewrite(stream));
  rep.phases.Load(rep.recipe.ActivePhase(image.step), plan.images);
  const ArenaView& view = rep.arena->view();
  view.step->step = view.step->previous_step = image.step;
  view.step->skipped_steps = static_cast<uint32_t>(image.skipped);
  for (uint32_t g = 0; g < view.groups; ++g) {
    view.group_states[g].ranks_disagree = 0;
    view.group_states[g].skipped = 0;
  }
  rep.held = image.held && rep.stale();
  if (image.held && !rep.stale() && !image.held_skip) {
    for (uint32_t i = 0; i < view.slots; ++i) {
      uint32_t& amax = view.amax[view.descriptors[i].amax_index];
      if (plan.images[i] != nullptr) {
        amax = MaxBits(amax, plan.images[i]->held_bits);
      }
    }
  }
  *view.kept_skip = image.kept_skip && rep.update().interval > 1 ? 1 : 0;
  rep.counters = {image.updates, image.collectives, image.skipped};
  rep.failure = absl::OkStatus();
  if (rep.steps) rep.steps->ClearReports();
  SK_RETURN_IF_ERROR(rep.StoreRewritten(rep.held && image.held_skip, stream));
  return std::move(plan.report);
}

absl::StatusOr<StateImage> SnapshotObservations(const RecipeState& state,
                                                Stream stream) {
  return SaveState(state, stream);
}

absl::Status Restore(const StateImage& snapshot, Stream stream,
                     RecipeState* state) {
  LoadOptions options;
  options.require_same_recipe = true;
  return LoadState(snapshot, options, stream, state).status();
}

absl::Status ResetObservations(absl::Span<const std::string> modules,
                               Stream stream, RecipeState* state) {
  auto& rep = StateAccess::rep(*state);
  SK_RETURN_IF_ERROR(RequireUsable(rep, "ResetObservations"));
  const std::vector<std::string>& known = rep.table.modules();
  for (const std::string& module : modules) {
    if (std::find(known.begin(), known.end(), module) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "ResetObservations: module ", Quoted(module),
        " was not added to this RecipeState", DidYouMean(module, known)));
  }
  SK_RETURN_IF_ERROR(rep.FetchToRewrite(stream));
  // Written anew with the scales' hashes.
  const bool held_skip =
      rep.held && OwnControl(HeldView(rep.arena->view()), 0)[0] != 0;
  const std::vector<int32_t>& slots = rep.table.arena_slots();
  const absl::flat_hash_set<absl::string_view> wanted(modules.begin(),
                                                      modules.end());
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (wanted.contains(rep.table.module(slots[i]))) rep.phases.ResetSlot(i);
  }
  return rep.StoreRewritten(held_skip, stream);
}

std::string LoadReport::ToString() const {
  std::string text;
  const auto list = [&text](absl::string_view what,
                            const std::vector<std::string>& items) {
    if (!items.empty()) {
      absl::StrAppend(&text, what, ": ", absl::StrJoin(items, ", "), "\n");
    }
  };
  for (const std::string& warning : warnings) {
    absl::StrAppend(&text, warning, "\n");
  }
  list("the recipe changed", recipe_differences);
  list("not in the image, new", missing);
  list("not in the state, ignored", extra);
  list("had no scale, new", fresh);
  list("need no scale now, dropped", dropped);
  list("scale made anew for another format", rescaled);
  return text;
}

}  // namespace scalekeeper
