// Recipes and what modules get of them; for tests. They end nothing: what fails
// is a failure of the test.
#ifndef SCALEKEEPER_TESTS_RECIPE_RESOLVE_TESTING_H_
#define SCALEKEEPER_TESTS_RECIPE_RESOLVE_TESTING_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {

// The recipe must be valid.
inline Recipe Make(const std::string& text) {
  absl::StatusOr<Recipe> recipe = Recipe::Parse(text, "r.textproto");
  EXPECT_THAT(recipe, IsOk());
  return *recipe;
}

inline ResolvedModules Resolve(const std::string& text,
                               const std::vector<std::string>& modules) {
  absl::StatusOr<ResolvedModules> resolved = Make(text).Resolve(modules);
  EXPECT_THAT(resolved, IsOk());
  return *resolved;
}

inline std::string Get(const ResolvedModules& resolved, int phase,
                       size_t module, Role role) {
  return Describe(resolved.at(phase, module).policy(role));
}

inline constexpr char kDelayedE4M3[] =
    "delayed E4M3 margin=0 amax_history_len=1024 amax_compute_algo=MAX "
    "non_finite_amax=SKIP first_step=MEASURE";
inline constexpr char kDelayedE5M2[] =
    "delayed E5M2 margin=0 amax_history_len=1024 amax_compute_algo=MAX "
    "non_finite_amax=SKIP first_step=MEASURE";
inline constexpr char kBF16[] = "high_precision dtype=BF16";

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_RECIPE_RESOLVE_TESTING_H_
