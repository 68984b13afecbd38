// Recipe: what the user asked for, resolved and checked; immutable afterwards.
//
// Purpose. Turns a recipe file (protobuf text format, schema and field docs in
// proto/recipe.proto), a preset's name, or a RecipeSpec built in code into an
// object that answers one question: what does module M get at step S?
// After Load / Parse / Create nothing checks configuration again.
//
// Threads: immutable, copyable (shared), safe from any thread.
// Outcome: the one syntax fault, or all semantic faults at once, each on a line
//   "file:line:column: error: field.path: got V, want ..."
// as InvalidArgument; NotFound / PermissionDenied when a file cannot be read.
//
// Resolution, per item (input, weight, grad, each GEMM, amax_reduction): the
// active phase's rules, the active phase itself, the recipe's rules in order,
// the defaults; the first that sets the item wins. The active phase is the last
// whose from_step <= step. Rules match whole module names (RE2).
//
// Example:
//   SK_ASSIGN_OR_RETURN(Recipe recipe, Recipe::Load("delayed_hybrid"));
//   SK_ASSIGN_OR_RETURN(ResolvedModules modules,
//                       recipe.Resolve({"layers.0.fc1", "head"}));
//   const Policy& w = modules.at(/*phase=*/0, /*module=*/1)
//                         .policy(Role::kWeight);
//   Recipe::Parse("defaults { all { delayed { margin: -1 } } }",
//   "r.textproto");
//       // InvalidArgument: r.textproto:1:28: error:
//       //     defaults.all.delayed.margin: got -1, want 0..32
#ifndef SCALEKEEPER_RECIPE_RECIPE_H_
#define SCALEKEEPER_RECIPE_RECIPE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "recipe/effective_field.h"
#include "recipe/resolved_modules.h"
#include "recipe/spec.h"

namespace scalekeeper {

class Faults;

class Recipe {
 public:
  // A preset's name or a file's path; a file wins over a preset of that name.
  static absl::StatusOr<Recipe> Load(absl::string_view preset_or_path);
  // Text in memory; `source` stands for the file name in errors.
  static absl::StatusOr<Recipe> Parse(absl::string_view text,
                                      absl::string_view source);
  static absl::StatusOr<Recipe> Create(const RecipeSpec& spec);

  // The recipes that come with the library, in alphabetical order, and the text
  // of one with its comments. NotFound for an unknown name.
  static std::vector<std::string> PresetNames();
  static absl::StatusOr<std::string> PresetText(absl::string_view name);

  const std::string& name() const;
  const std::string& description() const;

  // What can be active, in order, as the steps from which it is; the first is
  // 0. When the recipe has no `phase` that starts at step 0, phase 0 is the
  // recipe without any phase. (Hence an index here is not that of the text's
  // `phase[i]`.)
  absl::Span<const int64_t> phase_from_steps() const;
  // Index into phase_from_steps() of the phase that is active at `step` >= 0.
  int ActivePhase(int64_t step) const;

  // What every module gets in every phase. Fails, all faults at once, on: an
  // empty or repeated module name, a rule that matches none of them (unless
  // `optional`), a rule whose modules' items are all taken by earlier rules,
  // two E5M2 operands in one GEMM, random_hadamard on one operand of wgrad
  // alone.
  absl::StatusOr<ResolvedModules> Resolve(
      absl::Span<const std::string> modules) const;

  // As Resolve, for some of a model's modules, as a tool has them that looks at
  // one: a rule without effect on these is no fault. Rules by layer see no
  // other layers than those of these names.
  absl::StatusOr<ResolvedModules> ResolveSome(
      absl::Span<const std::string> modules) const;

  // The groups of ranks that the recipe names, sorted: those of its
  // amax_reductions (when anything is delayed) and every amax_group. A program
  // binds communicators to them.
  const std::vector<std::string>& group_names() const;

  const UpdatePolicy& update() const;

  // Canonical text: loads again to an equal recipe.
  std::string ToString() const;

  // 16 hexadecimal digits over every non-default field and numerics_version;
  // comments, order of fields and spelling do not change it.
  const std::string& fingerprint() const;

  const RecipeSpec& spec() const;

  // What bears on a run, field by field: what fingerprints and `diff` see.
  const std::vector<EffectiveField>& effective_fields() const;

 private:
  struct Rep;
  static absl::StatusOr<Recipe> Build(std::shared_ptr<Rep> rep, Faults faults);
  explicit Recipe(std::shared_ptr<const Rep> rep);
  std::shared_ptr<const Rep> rep_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_RECIPE_H_
