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
};

// Works on faulty specs too (what is missing stays unset), so that the checks
// that need the normal form can report together with the others.
NormalRecipe Normalize(const RecipeSpec& spec, const SourceMap& source);

// What a policy gets that does not say a format.
Format DefaultFormat(Scaling scaling, Role role);
// What holds for a GEMM that nothing sets.
GemmPolicy DefaultGemmPolicy(Gemm gemm);

// The operands of a GEMM, the gradient last.
std::array<Role, 2> Operands(Gemm gemm);

// Whether the policy yields E5M2 codes.
bool IsE5M2(const Policy& policy);

// Who gives a policy: for finding its text and for telling people.
struct Giver {
  const std::string* path = nullptr;    // "rule[1]"
  const std::string* origin = nullptr;  // "rule[1] (recipe.textproto:7:1)"
  bool by_all = false;                  // says it through `all`
};

// The fault of two E5M2 operands in one GEMM, reported at the first of
// Operands(gemm), which `a` gives; `whom` may add `for module "x"`.
void AddOperandFault(Gemm gemm, const Giver& a, const Giver& b,
                     absl::string_view whom, Faults& faults);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_NORMAL_FORM_H_
