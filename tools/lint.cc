#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "recipe/chip_check.h"
#include "recipe/recipe.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {
namespace {

// InvalidArgument with a line for each conflict of a recipe with a chip,
// "sm_90".
absl::Status LintChip(const std::string& file, const Recipe& recipe,
                      std::vector<std::string> modules,
                      absl::string_view chip) {
  ChipCheckOptions options;
  if (!absl::SimpleAtoi(absl::StripPrefix(chip, "sm_"),
                        &options.compute_capability)) {
    return absl::InternalError(absl::StrCat("--chip: got ", chip));
  }
  if (modules.empty()) modules = {"any module"};
  SK_ASSIGN_OR_RETURN(const ResolvedModules resolved,
                      recipe.ResolveSome(modules));
  absl::Status status =
      CheckChip(recipe.phase_from_steps(), modules, resolved, options);
  if (status.ok()) return status;
  std::vector<std::string> lines = absl::StrSplit(status.message(), '\n');
  for (std::string& line : lines) line = absl::StrCat(file, ": error: ", line);
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace

int RunLint(absl::Span<const std::string> args, std::ostream& out,
            std::ostream& err) {
  FlagSet flags(
      "lint", "FILE...",
      "Checks recipes. Each finding is one line on standard error:\n"
      "  FILE:LINE:COLUMN: error: FIELD: got VALUE, want ...\n"
      "With --chip also what Matmul would refuse on that GPU: without "
      "--modules, "
      "of a module\nthat only patterns like .* match.\n"
      "Exit code: 0 clean, 1 findings, 2 wrong usage or a file that cannot be "
      "read.");
  std::string modules_file;
  flags.String("modules", &modules_file, "NAMES.txt",
               "one module name a line: also checks which modules rules match");
  std::string chip;
  flags.Choice("chip", &chip, {"sm_89", "sm_90", "sm_100", "sm_120"},
               "a compute capability: also checks that it multiplies what the "
               "recipe quantizes");
  std::vector<std::string> files;
  if (auto exit_code = flags.Parse(args, files, out, err)) return *exit_code;
  if (files.empty()) return flags.UsageError("want at least one FILE", err);
  std::vector<std::string> modules;
  if (flags.Has("modules")) {
    absl::StatusOr<std::vector<std::string>> names =
        ReadModuleNames(modules_file);
    if (!names.ok()) return ReportStatus(names.status(), err);
    modules = *std::move(names);
  }
  int result = kExitOk;
  for (const std::string& file : files) {
    const absl::StatusOr<Recipe> recipe = Recipe::Load(file);
    absl::Status status = recipe.status();
    if (recipe.ok() && !modules.empty()) {
      const absl::StatusOr<ResolvedModules> resolved = recipe->Resolve(modules);
      status = resolved.status();
      if (resolved.ok()) {
        for (const std::string& warning : resolved->warnings()) {
          err << warning << "\n";
        }
      }
    }
    if (status.ok() && !chip.empty()) {
      status = LintChip(file, *recipe, modules, chip);
    }
    if (status.ok()) out << file << ": ok\n";
    result = std::max(result, ReportStatus(status, err));
  }
  return result;
}

}  // namespace scalekeeper
