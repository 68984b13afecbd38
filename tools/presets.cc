#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "recipe/recipe.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {

int RunPresets(absl::Span<const std::string> args, std::ostream& out,
               std::ostream& err) {
  FlagSet flags("presets", "[NAME]",
                "Lists the recipes that come with the library, or prints the "
                "text of one:\na file to start from.");
  std::vector<std::string> operands;
  if (auto exit_code = flags.Parse(args, operands, out, err)) {
    return *exit_code;
  }
  if (operands.size() > 1) return flags.UsageError("want one NAME", err);
  const std::vector<std::string> names = Recipe::PresetNames();
  if (operands.empty()) {
    size_t width = 0;
    for (const std::string& name : names) width = std::max(width, name.size());
    for (const std::string& name : names) {
      const absl::StatusOr<std::string> text = Recipe::PresetText(name);
      if (!text.ok()) return ReportStatus(text.status(), err);
      const absl::StatusOr<Recipe> recipe = Recipe::Parse(*text, name);
      if (!recipe.ok()) return ReportStatus(recipe.status(), err);
      out << name << std::string(width - name.size() + 2, ' ')
          << recipe->description() << "\n";
    }
    return kExitOk;
  }
  const absl::StatusOr<std::string> text = Recipe::PresetText(operands[0]);
  if (!text.ok()) {
    err << "scalekeeper presets: unknown preset " << Quoted(operands[0])
        << DidYouMean(operands[0], names)
        << "; known: " << absl::StrJoin(names, ", ") << "\n";
    return kExitTrouble;
  }
  out << *text;
  return kExitOk;
}

}  // namespace scalekeeper
