#include <algorithm>
#include <vector>

#include "recipe/recipe.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {

int RunLint(absl::Span<const std::string> args, std::ostream& out,
            std::ostream& err) {
  FlagSet flags(
      "lint", "FILE...",
      "Checks recipes. Each finding is one line on standard error:\n"
      "  FILE:LINE:COLUMN: error: FIELD: got VALUE, want ...\n"
      "Exit code: 0 clean, 1 findings, 2 wrong usage or a file that cannot be "
      "read.");
  std::string modules_file;
  flags.String("modules", &modules_file, "NAMES.txt",
               "one module name a line: also checks which modules rules match");
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
    if (status.ok()) out << file << ": ok\n";
    result = std::max(result, ReportStatus(status, err));
  }
  return result;
}

}  // namespace scalekeeper
