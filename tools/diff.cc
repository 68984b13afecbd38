#include <vector>

#include "recipe/recipe.h"
#include "recipe/recipe_diff.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {

int RunDiff(absl::Span<const std::string> args, std::ostream& out,
            std::ostream& err) {
  FlagSet flags("diff", "A B",
                "Compares what two recipes do, field by field, with `all`, "
                "inheritance and\ndefaults worked out; name and description do "
                "not count. One line per difference:\n"
                "  FIELD: VALUE_IN_A -> VALUE_IN_B\n"
                "Exit code: 0 equal, 1 different, 2 trouble.");
  std::vector<std::string> files;
  if (auto exit_code = flags.Parse(args, files, out, err)) return *exit_code;
  if (files.size() != 2) return flags.UsageError("want two FILEs", err);
  std::vector<Recipe> recipes;
  for (const std::string& file : files) {
    absl::StatusOr<Recipe> recipe = Recipe::Load(file);
    if (!recipe.ok()) {
      ReportStatus(recipe.status(), err);
      return kExitTrouble;
    }
    recipes.push_back(*std::move(recipe));
  }
  const std::vector<FieldDifference> differences =
      DifferingFields(recipes[0], recipes[1]);
  for (const FieldDifference& difference : differences) {
    out << Describe(difference) << "\n";
  }
  return differences.empty() ? kExitOk : kExitFindings;
}

}  // namespace scalekeeper
