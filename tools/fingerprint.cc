#include <vector>

#include "recipe/recipe.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {

int RunFingerprint(absl::Span<const std::string> args, std::ostream& out,
                   std::ostream& err) {
  FlagSet flags("fingerprint", "FILE",
                "Prints 16 hexadecimal digits that are equal for recipes that "
                "do the same:\ncomments, order of fields, spelling, name and "
                "description do not count.");
  std::vector<std::string> files;
  if (auto exit_code = flags.Parse(args, files, out, err)) return *exit_code;
  if (files.size() != 1) return flags.UsageError("want one FILE", err);
  const absl::StatusOr<Recipe> recipe = Recipe::Load(files[0]);
  if (!recipe.ok()) return ReportStatus(recipe.status(), err);
  out << recipe->fingerprint() << "\n";
  return kExitOk;
}

}  // namespace scalekeeper
