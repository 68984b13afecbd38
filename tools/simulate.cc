#include "tools/simulate.h"

#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "amax/recipe_state.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "numerics/amax.h"
#include "numerics/scale.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {
namespace {

// A column of the trace: its module's index and its slot.
struct Column {
  size_t module;
  SlotId slot;
};

// The scale that rank 0 multiplies with, given its own amax of the step; NaN
// where there is none.
float UsedScale(const Policy& policy, const SlotView& view, uint32_t own_amax) {
  if (policy.scaling == Scaling::kDelayed) {
    if (*view.measure != 0 && own_amax != kNotObserved && own_amax != 0 &&
        !IsNonFiniteAmax(own_amax)) {
      return ScaleFromAmax(FloatFromBits(own_amax), FormatMax(policy.format),
                           policy.delayed.margin);
    }
    return *view.scale;
  }
  if (policy.scaling == Scaling::kCurrent && own_amax != kNotObserved) {
    CurrentScaleOptions options;
    options.format_max = FormatMax(policy.format);
    options.power_2_scale = policy.current.power_2_scale;
    options.amax_epsilon = policy.current.amax_epsilon;
    return CurrentScaleFromAmax(own_amax, options);
  }
  return std::nanf("");
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Recipe& recipe,
                                    absl::Span<const Trace> ranks) {
  const Trace& own = ranks[0];
  SK_ASSIGN_OR_RETURN(const std::unique_ptr<RecipeState> state,
                      RecipeState::Create(recipe, {}));
  std::map<std::string, size_t> module_indices;
  std::vector<std::string> modules;
  std::vector<ModuleSlots> module_slots;
  std::vector<Column> columns;
  for (const TraceColumn& column : own.columns) {
    const auto [module, is_new] =
        module_indices.emplace(column.module, modules.size());
    if (is_new) {
      SK_ASSIGN_OR_RETURN(const ModuleSlots added,
                          state->AddModule(column.module));
      modules.push_back(column.module);
      module_slots.push_back(added);
    }
    columns.push_back(
        {module->second, module_slots[module->second].slot(column.role)});
  }
  SK_RETURN_IF_ERROR(state->Freeze());
  SK_ASSIGN_OR_RETURN(const ResolvedModules resolved, recipe.Resolve(modules));

  Simulation result;
  result.scales_csv = "step";
  for (const TraceColumn& column : own.columns) {
    absl::StrAppend(&result.scales_csv, ",", column.name);
  }
  result.scales_csv += '\n';
  for (size_t row = 0; row < own.steps.size(); ++row) {
    SK_RETURN_IF_ERROR(state->SetStep(own.steps[row]));
    absl::StrAppend(&result.scales_csv, own.steps[row]);
    for (size_t c = 0; c < columns.size(); ++c) {
      const SlotView view = state->View(columns[c].slot);
      const Policy& policy = state->policy(columns[c].slot);
      const bool reduced = resolved.at(state->active_phase(), columns[c].module)
                               .amax_reduction.enabled;
      const uint32_t own_amax = own.at(row, c);
      const float scale = UsedScale(policy, view, own_amax);
      result.scales_csv += ',';
      if (!std::isnan(scale)) {
        absl::StrAppendFormat(&result.scales_csv, "%.9g", scale);
        if (own_amax != kNotObserved && !IsNonFiniteAmax(own_amax)) {
          ++result.scaled;
          result.saturated +=
              FloatFromBits(own_amax) * scale > FormatMax(policy.format);
        }
      }
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        const uint32_t amax = ranks[rank].at(row, c);
        if (amax == kNotObserved) continue;
        result.non_finite += IsNonFiniteAmax(amax);
        if (policy.scaling == Scaling::kDelayed && (rank == 0 || reduced)) {
          Observe(view, amax);
        }
      }
    }
    result.scales_csv += '\n';
    SK_RETURN_IF_ERROR(state->EndStep(Stream{}));
  }
  return result;
}

int RunSimulate(absl::Span<const std::string> args, std::ostream& out,
                std::ostream& err) {
  FlagSet flags(
      "simulate", "",
      "Replays recorded amaxes under a recipe and writes, for every step and\n"
      "quantizer, the scale that rank 0 uses at that step, before its update.\n"
      "\n"
      "A trace is the CSV of one rank: step,loss,<module>/<role>,... with "
      "that\n"
      "rank's amax of the step before any reduction; nan and inf are allowed,\n"
      "an empty cell says: not observed. The loss column may be absent. Where\n"
      "the recipe reduces amaxes, the ranks given are one group.\n"
      "\n"
      "The scales are a CSV, step,<module>/<role>,...: cells are empty for "
      "high\n"
      "precision, and for current scaling where rank 0 observed nothing. All\n"
      "three flags are required.");
  std::string recipe_name;
  std::string trace_list;
  std::string scales_path;
  flags.String("recipe", &recipe_name, "FILE", "recipe file or preset");
  flags.String("trace", &trace_list, "RANK0.csv[,RANK1.csv...]",
               "one file a rank, rank 0 first");
  flags.String("scales_csv", &scales_path, "OUT",
               "where the scales go, one column per quantizer of the trace");
  std::vector<std::string> operands;
  if (const auto exit_code = flags.Parse(args, operands, out, err)) {
    return *exit_code;
  }
  if (!operands.empty()) {
    return flags.UsageError(
        absl::StrCat("unexpected argument '", operands[0], "'"), err);
  }
  for (const char* required : {"recipe", "trace", "scales_csv"}) {
    if (!flags.Has(required)) {
      return flags.UsageError(absl::StrCat("want --", required), err);
    }
  }
  for (const std::string* value : {&recipe_name, &trace_list, &scales_path}) {
    if (value->empty()) {
      return flags.UsageError(
          "got an empty --recipe, --trace or --scales_csv, want a path", err);
    }
  }
  const absl::StatusOr<Recipe> recipe = Recipe::Load(recipe_name);
  if (!recipe.ok()) return ReportStatus(recipe.status(), err);
  const std::vector<std::string> traces = absl::StrSplit(trace_list, ',');
  const absl::StatusOr<std::vector<Trace>> ranks = ReadTraceCsvs(traces);
  if (!ranks.ok()) return ReportStatus(ranks.status(), err);
  for (const std::string& trace : traces) {
    if (SameFile(trace, scales_path)) {
      return flags.UsageError(
          "--scales_csv: would overwrite the trace " + trace, err);
    }
  }
  if (SameFile(recipe_name, scales_path)) {
    return flags.UsageError(
        "--scales_csv: would overwrite the recipe " + recipe_name, err);
  }
  const absl::StatusOr<Simulation> simulation = Simulate(*recipe, *ranks);
  if (!simulation.ok()) return ReportStatus(simulation.status(), err);
  const absl::Status written = WriteFile(scales_path, simulation->scales_csv);
  if (!written.ok()) return ReportStatus(written, err);
  out << absl::StrFormat(
      "%d steps, %d quantizers, %d rank%s: %d of %d scaled tensors saturate, "
      "%d non-finite amaxes; scales in %s\n",
      ranks->front().steps.size(), ranks->front().columns.size(), ranks->size(),
      ranks->size() == 1 ? "" : "s", simulation->saturated, simulation->scaled,
      simulation->non_finite, scales_path);
  return kExitOk;
}

}  // namespace scalekeeper
