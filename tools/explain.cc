#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/text.h"
#include "recipe/policy_options.h"
#include "recipe/recipe.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {
namespace {

constexpr absl::string_view kItems[] = {
    "input", "weight", "grad", "fprop", "dgrad", "wgrad", "amax_reduction"};

const char* Text(bool value) { return value ? "true" : "false"; }

// What people read of one item, and who gave it.
struct Cell {
  std::string value;
  std::string origin;
};

std::vector<Cell> Cells(const ResolvedModule& module) {
  std::vector<Cell> cells;
  cells.reserve(std::size(kItems));
  for (size_t i = 0; i < 3; ++i) {
    cells.push_back({Describe(module.policies[i]), module.policy_origins[i]});
  }
  for (size_t i = 0; i < 3; ++i) {
    const GemmPolicy& gemm = module.gemms[i];
    cells.push_back({gemm.high_precision
                         ? "high_precision"
                         : absl::StrCat("fast_accum=", Text(gemm.fast_accum),
                                        gemm.emulate ? " emulate=true" : ""),
                     module.gemm_origins[i]});
  }
  const AmaxReductionPolicy& reduction = module.amax_reduction;
  cells.push_back(
      {reduction.enabled ? absl::StrCat("group=", reduction.group) : "disabled",
       module.amax_reduction_origin});
  return cells;
}

std::string OptionJson(const PolicyOption& option) {
  using Kind = PolicyOption::Kind;
  const bool quoted = option.kind == Kind::kWord || option.kind == Kind::kText;
  return quoted ? JsonString(option.value) : option.value;
}

std::string PolicyJson(const Policy& policy, const std::string& origin) {
  std::string text =
      absl::StrCat("{\"scaling\": ", JsonString(Name(policy.scaling)));
  if (policy.scaling != Scaling::kHighPrecision) {
    absl::StrAppend(&text, ", \"format\": ", JsonString(Name(policy.format)));
  }
  for (const PolicyOption& option : OptionsOf(policy)) {
    absl::StrAppend(&text, ", \"", option.name, "\": ", OptionJson(option));
  }
  return absl::StrCat(text, ", \"from\": ", JsonString(origin), "}");
}

// The object's members after "module", which is the module's own.
std::string ModuleJson(const ResolvedModule& module) {
  std::string text;
  for (Role role : kRoles) {
    const auto i = static_cast<size_t>(role);
    absl::StrAppend(&text, ", \"", Name(role), "\": ",
                    PolicyJson(module.policies[i], module.policy_origins[i]));
  }
  for (Gemm gemm : kGemms) {
    const auto i = static_cast<size_t>(gemm);
    const GemmPolicy& policy = module.gemms[i];
    absl::StrAppend(&text, ", \"", Name(gemm),
                    "\": {\"fast_accum\": ", Text(policy.fast_accum),
                    ", \"high_precision\": ", Text(policy.high_precision),
                    ", \"emulate\": ", Text(policy.emulate),
                    ", \"from\": ", JsonString(module.gemm_origins[i]), "}");
  }
  absl::StrAppend(&text, ", \"amax_reduction\": {\"enabled\": ",
                  Text(module.amax_reduction.enabled));
  if (module.amax_reduction.enabled) {
    absl::StrAppend(&text,
                    ", \"group\": ", JsonString(module.amax_reduction.group));
  }
  return absl::StrCat(
      text, ", \"from\": ", JsonString(module.amax_reduction_origin), "}}");
}

struct Question {
  const Recipe& recipe;
  const std::vector<std::string>& modules;
  const ResolvedModules& resolved;
  int64_t step;
  int phase;
};

void PrintJson(const Question& q, std::ostream& out) {
  out << "{\"recipe\": " << JsonString(q.recipe.name())
      << ", \"fingerprint\": " << JsonString(q.recipe.fingerprint())
      << ", \"step\": " << q.step << ", \"phase\": " << q.phase
      << ", \"from_step\": "
      << q.recipe.phase_from_steps()[static_cast<size_t>(q.phase)]
      << ", \"modules\": [";
  // Modules share few distinct answers; each is written out once.
  std::unordered_map<const ResolvedModule*, std::string> tails;
  for (size_t m = 0; m < q.modules.size(); ++m) {
    const ResolvedModule& module = q.resolved.at(q.phase, m);
    std::string& tail = tails[&module];
    if (tail.empty()) tail = ModuleJson(module);
    out << (m == 0 ? "\n" : ",\n")
        << "  {\"module\": " << JsonString(q.modules[m]) << tail;
  }
  out << "\n]}\n";
}

void PrintTable(const Question& q, std::ostream& out) {
  out << "recipe " << (q.recipe.name().empty() ? "(no name)" : q.recipe.name())
      << ", fingerprint " << q.recipe.fingerprint() << ", step " << q.step
      << ", phase " << q.phase << " (from step "
      << q.recipe.phase_from_steps()[static_cast<size_t>(q.phase)] << ")\n";
  std::unordered_map<const ResolvedModule*, std::vector<Cell>> cells;
  size_t module_width = 6, item_width = 0, value_width = 5;
  for (size_t m = 0; m < q.modules.size(); ++m) {
    module_width = std::max(module_width, q.modules[m].size());
    std::vector<Cell>& row = cells[&q.resolved.at(q.phase, m)];
    if (!row.empty()) continue;
    row = Cells(q.resolved.at(q.phase, m));
    for (const Cell& cell : row) {
      value_width = std::max(value_width, cell.value.size());
    }
  }
  for (absl::string_view item : kItems) {
    item_width = std::max(item_width, item.size());
  }
  const auto pad = [](absl::string_view text, size_t width) {
    std::string padded(text);
    padded.resize(std::max(width, text.size()) + 2, ' ');
    return padded;
  };
  out << pad("module", module_width) << pad("item", item_width)
      << pad("value", value_width) << "from\n";
  std::unordered_map<const ResolvedModule*, std::vector<std::string>> tails;
  for (size_t m = 0; m < q.modules.size(); ++m) {
    const ResolvedModule* module = &q.resolved.at(q.phase, m);
    std::vector<std::string>& lines = tails[module];
    if (lines.empty()) {
      const std::vector<Cell>& row = cells[module];
      for (size_t i = 0; i < row.size(); ++i) {
        lines.push_back(absl::StrCat(pad(kItems[i], item_width),
                                     pad(row[i].value, value_width),
                                     row[i].origin, "\n"));
      }
    }
    const std::string name = pad(q.modules[m], module_width);
    for (const std::string& line : lines) out << name << line;
  }
}

}  // namespace

int RunExplain(absl::Span<const std::string> args, std::ostream& out,
               std::ostream& err) {
  FlagSet flags("explain", "FILE",
                "Shows what each module gets for each role (input, weight, "
                "grad), each GEMM and\nthe amax reduction, and which part of "
                "the recipe gave it.");
  std::string modules_file;
  std::string output = "table";
  int64_t step = 0;
  flags.String("modules", &modules_file, "NAMES.txt",
               "one module name a line (required)");
  flags.Int64("step", &step, "N", "training step, for recipes with phases");
  flags.Choice("output", &output, {"table", "json"}, "how to print it");
  std::vector<std::string> files;
  if (auto exit_code = flags.Parse(args, files, out, err)) return *exit_code;
  if (files.size() != 1) return flags.UsageError("want one FILE", err);
  if (!flags.Has("modules")) {
    return flags.UsageError("want --modules=NAMES.txt", err);
  }
  if (step < 0) {
    return flags.UsageError(absl::StrCat("--step: got ", step, ", want >= 0"),
                            err);
  }
  const absl::StatusOr<Recipe> recipe = Recipe::Load(files[0]);
  if (!recipe.ok()) return ReportStatus(recipe.status(), err);
  const absl::StatusOr<std::vector<std::string>> modules =
      ReadModuleNames(modules_file);
  if (!modules.ok()) return ReportStatus(modules.status(), err);
  const absl::StatusOr<ResolvedModules> resolved = recipe->Resolve(*modules);
  if (!resolved.ok()) return ReportStatus(resolved.status(), err);
  for (const std::string& warning : resolved->warnings()) {
    err << warning << "\n";
  }
  const Question question = {*recipe, *modules, *resolved, step,
                             recipe->ActivePhase(step)};
  if (output == "json") {
    PrintJson(question, out);
  } else {
    PrintTable(question, out);
  }
  return kExitOk;
}

}  // namespace scalekeeper
