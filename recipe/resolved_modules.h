// The resolved table: (phase, module) -> policies, and which rule gave them.
//
// Plain immutable values. Module indices follow the span given to
// Recipe::Resolve. 100,000 modules share their policies by index, so the table
// is small whatever the number of modules.
#ifndef SCALEKEEPER_RECIPE_RESOLVED_MODULES_H_
#define SCALEKEEPER_RECIPE_RESOLVED_MODULES_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "recipe/policy.h"

namespace scalekeeper {

// Everything that one module gets in one phase. `origin` strings say who gave
// the item: "defaults", "rule[1] (recipe.textproto:7:1)", "phase[0]",
// "phase[0].rule[2] (...)", "matmul" and "amax_reduction" for the recipe's own,
// "built-in" for items that nothing sets.
struct ResolvedModule {
  std::array<Policy, 3> policies;  // by Role
  std::array<std::string, 3> policy_origins;
  std::array<GemmPolicy, 3> gemms;  // by Gemm
  std::array<std::string, 3> gemm_origins;
  AmaxReductionPolicy amax_reduction;
  std::string amax_reduction_origin;

  const Policy& policy(Role role) const {
    return policies[static_cast<size_t>(role)];
  }
  const GemmPolicy& gemm(Gemm gemm) const {
    return gemms[static_cast<size_t>(gemm)];
  }
};

class ResolvedModules {
 public:
  // `index[phase][module]` points into `distinct`.
  ResolvedModules(std::vector<ResolvedModule> distinct,
                  std::vector<std::vector<uint32_t>> index,
                  std::vector<std::string> warnings)
      : distinct_(std::move(distinct)),
        index_(std::move(index)),
        warnings_(std::move(warnings)) {}

  int phases() const { return static_cast<int>(index_.size()); }
  const ResolvedModule& at(int phase, size_t module) const {
    return distinct_[index_[static_cast<size_t>(phase)][module]];
  }
  // Not errors, one line each: an `optional` rule that matches no module.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<ResolvedModule> distinct_;
  std::vector<std::vector<uint32_t>> index_;
  std::vector<std::string> warnings_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_RESOLVED_MODULES_H_
