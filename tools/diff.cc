#include <map>
#include <vector>

#include "recipe/recipe.h"
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
  std::map<std::string, const EffectiveField*> in_a, in_b;
  for (const EffectiveField& f : recipes[0].effective_fields()) {
    in_a[f.path] = &f;
  }
  for (const EffectiveField& f : recipes[1].effective_fields()) {
    in_b[f.path] = &f;
  }
  bool differ = false;
  for (const EffectiveField& a : recipes[0].effective_fields()) {
    const auto b = in_b.find(a.path);
    if (b == in_b.end()) {
      if (a.is_default) continue;
      out << a.path << ": " << a.value << " -> (none)\n";
    } else if (a.value != b->second->value) {
      out << a.path << ": " << a.value << " -> " << b->second->value << "\n";
    } else {
      continue;
    }
    differ = true;
  }
  for (const EffectiveField& b : recipes[1].effective_fields()) {
    if (b.is_default || in_a.count(b.path) != 0) continue;
    out << b.path << ": (none) -> " << b.value << "\n";
    differ = true;
  }
  return differ ? kExitFindings : kExitOk;
}

}  // namespace scalekeeper
