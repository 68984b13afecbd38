// A recipe with everything that does not need module names done: roles instead
// of `all`, inheritance, defaults filled in.
//
// Resolution, the fingerprint and `diff` start from here, so that two spellings
// of one recipe are one.
#ifndef SCALEKEEPER_RECIPE_NORMAL_FORM_H_
#define SCALEKEEPER_RECIPE_NORMAL_FORM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "recipe/policy.h"
#include "recipe/source_map.h"
#include "recipe/spec.h"

namespace scalekeeper {

// The items that one message sets, each of them complete.
struct Items {
  std::array<std::optional<Policy>, 3> policies;   // by Role
  std::array<bool, 3> said_by_all = {};            // ... through `all`
  std::array<std::optional<GemmPolicy>, 3> gemms;  // by Gemm
  std::optional<AmaxReductionPolicy> amax_reduction;
};

// One bit per item that is set: three roles, three GEMMs, amax_reduction.
inline constexpr size_t kItemCount = 7;
uint32_t ItemBits(const Items& items);

// Which modules a rule is about: a pattern, or layers by number.
struct Selector {
  std::string pattern;
  bool by_layer = false;
  int64_t first = 0, last = 0;  // layers
  double last_percent = 0;
};
// Equal for selectors that choose the same modules because they say the same.
std::string SelectorKey(const Selector& selector);
// ".*": every module.
bool SelectsAll(const Selector& selector);

struct NormalRule {
  std::string path;    // "rule[1]", "phase[0].rule[2]"
  std::string origin;  // the path, and its place in the text
  Selector selector;
  Items items;
  bool optional = false;
};

struct NormalPhase {
  std::string path;
  int64_t from_step = 0;
  Items items;
  std::vector<NormalRule> rules;
};

struct NormalRecipe {
  Items defaults;       // every item set, unless the recipe has faults
  Items set_by_recipe;  // of `defaults`, what the recipe itself says
  std::vector<NormalRule> rules;
  std::vector<NormalPhase> phases;  // as written
  UpdatePolicy update;
};

// Works on faulty specs too (what is missing stays unset), so that the checks
// that need the normal form can report together with the others.
NormalRecipe Normalize(const RecipeSpec& spec, const SourceMap& source);

// Sorted: the amax_group of every policy, and, where any policy is delayed, the
// group of every amax_reduction (the recipe's own default included).
std::vector<std::string> GroupNames(const NormalRecipe& recipe);

// What `own` says for the role, with what it leaves unset inherited from
// `defaults` (may be null) or the documented default; nullopt without scaling.
std::optional<Policy> CompletePolicy(const PolicySpec& own,
                                     const RolePoliciesSpec* defaults,
                                     Role role);

// What a policy gets that does not say a format.
Format DefaultFormat(Scaling scaling, Role role);
// What a policy with `block` gets that does not say a shape.
BlockShape DefaultBlockShape(Role role);
// What holds for a GEMM that nothing sets.
GemmPolicy DefaultGemmPolicy(Gemm gemm);

// The operands of a GEMM, the gradient last.
std::array<Role, 2> Operands(Gemm gemm);

// Who gives a policy: for finding its text and for telling people.
struct Giver {
  const std::string* path = nullptr;    // "rule[1]"
  const std::string* origin = nullptr;  // "rule[1] (recipe.textproto:7:1)"
  bool by_all = false;                  // says it through `all`
};

// Two operands that one GEMM cannot have together, whatever the chip: both E5M2
// (no hardware multiplies them), or only one of them transformed by
// random_hadamard (the transforms of the two cancel).
struct OperandConflict {
  Role at = Role::kInput;  // where it is reported
  Role other = Role::kInput;
  absl::string_view field;  // of `at`'s policy: "format"
  absl::string_view got;    // its value
  std::string other_says;   // "is E5M2 too"
  std::string want;
};

// `a` and `b` in the order of Operands(gemm); nullopt if they fit.
std::optional<OperandConflict> FindConflict(Gemm gemm, const Policy& a,
                                            const Policy& b);

// `at` and `other` give the two roles of the conflict; `whom` may add
// ` of module "x"`.
void AddOperandFault(const OperandConflict& conflict, const Giver& at,
                     const Giver& other, absl::string_view whom,
                     Faults& faults);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_NORMAL_FORM_H_
