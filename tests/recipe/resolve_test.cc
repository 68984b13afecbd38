// What modules get: precedence, inheritance, phases, layers.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/recipe/resolve_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;

// M3: what is unset has the documented default.
TEST(ResolveTest, M3EverythingUnsetHasTheDocumentedDefault) {
  const ResolvedModules r = Resolve("defaults { all { delayed {} } }", {"m"});
  const ResolvedModule& m = r.at(0, 0);
  EXPECT_EQ(Describe(m.policy(Role::kInput)), kDelayedE4M3);
  EXPECT_EQ(Describe(m.policy(Role::kWeight)), kDelayedE4M3);
  EXPECT_EQ(Describe(m.policy(Role::kGrad)), kDelayedE5M2);
  EXPECT_TRUE(m.gemm(Gemm::kFprop).fast_accum);
  EXPECT_FALSE(m.gemm(Gemm::kDgrad).fast_accum);
  EXPECT_FALSE(m.gemm(Gemm::kWgrad).fast_accum);
  EXPECT_FALSE(m.gemm(Gemm::kFprop).high_precision);
  EXPECT_TRUE(m.amax_reduction.enabled);
  EXPECT_EQ(m.amax_reduction.group, "default");
  EXPECT_THAT(m.policy_origins,
              ElementsAre("defaults", "defaults", "defaults"));
  EXPECT_THAT(m.gemm_origins, ElementsAre("built-in", "built-in", "built-in"));
  EXPECT_EQ(m.amax_reduction_origin, "built-in");
}

TEST(ResolveTest, M3ReductionThatIsOffHasNoGroup) {
  const ResolvedModules r = Resolve(
      "defaults { all { delayed {} } } amax_reduction { enabled: false }",
      {"m"});
  EXPECT_FALSE(r.at(0, 0).amax_reduction.enabled);
  EXPECT_EQ(r.at(0, 0).amax_reduction.group, "");
  EXPECT_EQ(r.at(0, 0).amax_reduction_origin, "amax_reduction");
}

// B13: HYBRID means E4M3 forward, E5M2 backward; E4M3 for all means all.
TEST(ResolveTest, B13FormatPerRole) {
  for (const char* preset : {"delayed_hybrid", "delayed_e4m3"}) {
    absl::StatusOr<Recipe> recipe = Recipe::Load(preset);
    ASSERT_THAT(recipe, IsOk());
    absl::StatusOr<ResolvedModules> r = recipe->Resolve({"m"});
    ASSERT_THAT(r, IsOk());
    EXPECT_EQ(r->at(0, 0).policy(Role::kInput).format, Format::kE4M3);
    EXPECT_EQ(r->at(0, 0).policy(Role::kWeight).format, Format::kE4M3);
    EXPECT_EQ(r->at(0, 0).policy(Role::kGrad).format,
              std::string(preset) == "delayed_hybrid" ? Format::kE5M2
                                                      : Format::kE4M3);
  }
}

// The documented defaults of every scaling, by role.
TEST(ResolveTest, EveryScalingHasItsDefaults) {
  const struct {
    const char* scaling;
    const char* input;
    const char* weight;
    const char* grad;
  } rows[] = {
      {"high_precision {}", "high_precision dtype=BF16",
       "high_precision dtype=BF16", "high_precision dtype=BF16"},
      {"delayed {}", kDelayedE4M3, kDelayedE4M3, kDelayedE5M2},
      {"current {}", "current E4M3 power_2_scale=false amax_epsilon=0",
       "current E4M3 power_2_scale=false amax_epsilon=0",
       "current E5M2 power_2_scale=false amax_epsilon=0"},
      {"rowwise {}", "rowwise E4M3 power_2_scale=false amax_epsilon=0",
       "rowwise E4M3 power_2_scale=false amax_epsilon=0",
       "rowwise E5M2 power_2_scale=false amax_epsilon=0"},
      {"block {}",
       "block E4M3 block_shape=B1X128 power_2_scale=false amax_epsilon=0",
       "block E4M3 block_shape=B128X128 power_2_scale=false amax_epsilon=0",
       "block E4M3 block_shape=B1X128 power_2_scale=false amax_epsilon=0"},
      {"mxfp8 {}", "mxfp8 E4M3 scale_rounding=UP two_dimensional=false",
       "mxfp8 E4M3 scale_rounding=UP two_dimensional=false",
       "mxfp8 E4M3 scale_rounding=UP two_dimensional=false"},
      {"nvfp4 {}",
       "nvfp4 E2M1 two_dimensional=false stochastic_rounding=false "
       "random_hadamard=false four_over_six=false seed=0",
       "nvfp4 E2M1 two_dimensional=false stochastic_rounding=false "
       "random_hadamard=false four_over_six=false seed=0",
       "nvfp4 E2M1 two_dimensional=false stochastic_rounding=false "
       "random_hadamard=false four_over_six=false seed=0"},
      {"custom { factory: 'f' }", "custom E4M3 factory=\"f\" parameters={}",
       "custom E4M3 factory=\"f\" parameters={}",
       "custom E5M2 factory=\"f\" parameters={}"},
  };
  for (const auto& row : rows) {
    const ResolvedModules r =
        Resolve(absl::StrCat("defaults { all { ", row.scaling, " } }"), {"m"});
    EXPECT_EQ(Get(r, 0, 0, Role::kInput), row.input);
    EXPECT_EQ(Get(r, 0, 0, Role::kWeight), row.weight);
    EXPECT_EQ(Get(r, 0, 0, Role::kGrad), row.grad);
  }
}

TEST(ResolveTest, EveryOptionIsInheritedAndCanBeSetBack) {
  const struct {
    const char* defaults;  // the scaling with every option set
    const char* inherits;
    const char* sets_back;
    const char* inherited;  // for weight
    const char* set_back;
  } rows[] = {
      {"format: E5M2 rowwise { power_2_scale: true amax_epsilon: 0.5 "
       "amax_group: 'g' }",
       "rowwise {}",
       "format: E4M3 rowwise { power_2_scale: false amax_epsilon: 0 "
       "amax_group: 'h' }",
       "rowwise E5M2 power_2_scale=true amax_epsilon=0.5 amax_group=\"g\"",
       "rowwise E4M3 power_2_scale=false amax_epsilon=0 amax_group=\"h\""},
      {"current { amax_group: 'g' }", "current { power_2_scale: true }",
       "current { amax_group: 'h' }",
       "current E4M3 power_2_scale=true amax_epsilon=0 amax_group=\"g\"",
       "current E4M3 power_2_scale=false amax_epsilon=0 amax_group=\"h\""},
      {"rowwise { amax_group: 'g' }", "rowwise {}",
       "rowwise { amax_group: '' }",
       "rowwise E4M3 power_2_scale=false amax_epsilon=0 amax_group=\"g\"",
       "rowwise E4M3 power_2_scale=false amax_epsilon=0"},
      {"nvfp4 { amax_group: 'g' }", "nvfp4 {}", "nvfp4 { amax_group: '' }",
       "nvfp4 E2M1 two_dimensional=false stochastic_rounding=false "
       "random_hadamard=false four_over_six=false seed=0 amax_group=\"g\"",
       "nvfp4 E2M1 two_dimensional=false stochastic_rounding=false "
       "random_hadamard=false four_over_six=false seed=0"},
      {"format: E5M2 block { block_shape: B1X128 power_2_scale: true "
       "amax_epsilon: 0.5 }",
       "block {}",
       "format: E4M3 block { block_shape: B128X128 power_2_scale: false "
       "amax_epsilon: 0 }",
       "block E5M2 block_shape=B1X128 power_2_scale=true amax_epsilon=0.5",
       "block E4M3 block_shape=B128X128 power_2_scale=false amax_epsilon=0"},
      {"format: E5M2 mxfp8 { scale_rounding: OCP_FLOOR two_dimensional: true }",
       "mxfp8 {}",
       "format: E4M3 mxfp8 { scale_rounding: UP two_dimensional: false }",
       "mxfp8 E5M2 scale_rounding=OCP_FLOOR two_dimensional=true",
       "mxfp8 E4M3 scale_rounding=UP two_dimensional=false"},
      {"nvfp4 { two_dimensional: true stochastic_rounding: true seed: 5 "
       "amax_group: 'g' }",
       "nvfp4 {}",
       "nvfp4 { two_dimensional: false stochastic_rounding: false "
       "four_over_six: true amax_group: 'h' }",
       "nvfp4 E2M1 two_dimensional=true stochastic_rounding=true "
       "random_hadamard=false four_over_six=false seed=5 amax_group=\"g\"",
       "nvfp4 E2M1 two_dimensional=false stochastic_rounding=false "
       "random_hadamard=false four_over_six=true seed=5 amax_group=\"h\""},
      {"format: E5M2 custom { factory: 'f' parameters { fields { key: 'a' "
       "value { number_value: 1 } } } }",
       "custom {}", "format: E4M3 custom { factory: 'f' parameters {} }",
       "custom E5M2 factory=\"f\" parameters={\"a\":1}",
       "custom E4M3 factory=\"f\" parameters={}"},
      // Another factory knows nothing of the first one's parameters.
      {"custom { factory: 'f' parameters { fields { key: 'a' value { "
       "null_value: NULL_VALUE } } } }",
       "custom { factory: 'f' }", "custom { factory: 'g' }",
       "custom E4M3 factory=\"f\" parameters={\"a\":null}",
       "custom E4M3 factory=\"g\" parameters={}"},
  };
  for (const auto& row : rows) {
    const ResolvedModules r = Resolve(
        absl::StrCat("defaults { all { high_precision {} } weight { ",
                     row.defaults, " } }\n", "rule { module: 'a' weight { ",
                     row.inherits, " } }\n", "phase { from_step: 3 weight { ",
                     row.sets_back, " } }"),
        {"a"});
    EXPECT_EQ(Get(r, 0, 0, Role::kWeight), row.inherited);
    EXPECT_EQ(Get(r, 1, 0, Role::kWeight), row.set_back);
  }
}

TEST(ResolveTest, AGemmAloneInHighPrecisionInDefaultsRulesAndPhases) {
  const ResolvedModules r = Resolve(
      "defaults { all { rowwise {} } }\n"
      "matmul { wgrad { high_precision: true } }\n"
      "rule { module: 'a' matmul { wgrad { emulate: true } fprop { "
      "high_precision: true } } }\n"
      "phase { from_step: 10 matmul { wgrad { high_precision: false } dgrad { "
      "high_precision: true } } rule { module: 'b' matmul { dgrad {} wgrad { "
      "high_precision: true } } } }",
      {"a", "b", "c"});
  // As "fdw", a letter for each GEMM in high precision, by module and phase.
  const auto hp = [&](int phase, size_t module) {
    std::string letters;
    for (Gemm gemm : kGemms) {
      if (r.at(phase, module).gemm(gemm).high_precision) {
        letters += Name(gemm)[0];
      }
    }
    return letters;
  };
  EXPECT_EQ(hp(0, 0), "f");
  EXPECT_TRUE(r.at(0, 0).gemm(Gemm::kWgrad).emulate);
  EXPECT_EQ(hp(0, 1), "w");
  EXPECT_EQ(hp(0, 2), "w");
  EXPECT_FALSE(r.at(0, 2).gemm(Gemm::kWgrad).fast_accum);
  EXPECT_EQ(hp(1, 0), "fd");
  EXPECT_EQ(hp(1, 1), "w");
  EXPECT_EQ(hp(1, 2), "d");
  // The operands' policies stay: the other GEMMs use them.
  EXPECT_EQ(r.at(0, 1).policy(Role::kGrad).scaling, Scaling::kRowwise);
}

TEST(ResolveTest, HadamardOnOneOperandNamesTheModule) {
  const Recipe recipe = Make(
      "defaults { all { nvfp4 {} } }\n"
      "rule { module: \"a.*\" input { nvfp4 { random_hadamard: true } } }\n"
      "rule { module: \".*b\" grad { nvfp4 { random_hadamard: true } } }\n"
      "rule { module: \"c|a\" grad { high_precision {} } }");
  EXPECT_THAT(recipe.Resolve({"ab", "c"}), IsOk());
  EXPECT_THAT(
      recipe.Resolve({"ab", "a", "b"}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          "r.textproto:2:38: error: rule[0].input.nvfp4.random_hadamard: got "
          "true for input of module \"a\" while grad is high_precision "
          "(rule[2] (r.textproto:4:1)), want it for both operands of wgrad or "
          "for none\n"
          "r.textproto:3:37: error: rule[1].grad.nvfp4.random_hadamard: got "
          "true for grad of module \"b\" while input has false (defaults), "
          "want it for both operands of wgrad or for none"));
}

// B9: amax_epsilon belongs to the policy that names it, to no other.
TEST(ResolveTest, B9EpsilonStaysWithItsPolicy) {
  const ResolvedModules r = Resolve(
      "defaults { input { current { amax_epsilon: 1e-4 } } weight { current {} "
      "} grad { delayed {} } }\n"
      "rule { module: \"b\" weight { current { power_2_scale: true } } input { "
      "delayed {} } }",
      {"a", "b"});
  EXPECT_EQ(r.at(0, 0).policy(Role::kInput).current.amax_epsilon, 1e-4f);
  EXPECT_EQ(r.at(0, 0).policy(Role::kWeight).current.amax_epsilon, 0.0f);
  EXPECT_EQ(r.at(0, 0).policy(Role::kGrad).current.amax_epsilon, 0.0f);
  EXPECT_EQ(Get(r, 0, 1, Role::kWeight),
            "current E4M3 power_2_scale=true amax_epsilon=0");
  EXPECT_EQ(Get(r, 0, 1, Role::kInput), kDelayedE4M3);
}

// M9: the first rule that matches wins.
TEST(ResolveTest, M9SpecialRuleBeforeGeneralOne) {
  const ResolvedModules r = Resolve(
      "defaults { all { delayed { margin: 2 } } }\n"
      "rule { module: \".*lm_head\" all { high_precision {} } }\n"
      "rule { module: \".*\" all { current {} } }",
      {"model.lm_head", "model.fc"});
  EXPECT_EQ(Get(r, 0, 0, Role::kInput), kBF16);
  EXPECT_EQ(r.at(0, 0).policy_origins[0], "rule[0] (r.textproto:2:1)");
  EXPECT_EQ(Get(r, 0, 1, Role::kInput),
            "current E4M3 power_2_scale=false amax_epsilon=0");
  EXPECT_EQ(r.at(0, 1).policy_origins[0], "rule[1] (r.textproto:3:1)");
}

TEST(ResolveTest, EachItemIsDecidedOnItsOwn) {
  const ResolvedModules r = Resolve(
      "defaults { all { delayed {} } }\n"
      "rule { module: \"a\" grad { high_precision {} } matmul { dgrad { "
      "high_precision: true } } }\n"
      "rule { module: \"a|b\" all { current {} } matmul { dgrad {} wgrad { "
      "fast_accum: true } } amax_reduction { group: \"g\" } }",
      {"a", "b"});
  const ResolvedModule& a = r.at(0, 0);
  EXPECT_EQ(a.policy(Role::kInput).scaling, Scaling::kCurrent);
  EXPECT_EQ(a.policy(Role::kGrad).scaling, Scaling::kHighPrecision);
  EXPECT_TRUE(a.gemm(Gemm::kDgrad).high_precision);
  EXPECT_TRUE(a.gemm(Gemm::kWgrad).fast_accum);
  EXPECT_TRUE(a.gemm(Gemm::kFprop).fast_accum);
  EXPECT_EQ(a.gemm_origins[0], "built-in");
  EXPECT_EQ(a.gemm_origins[1], "rule[0] (r.textproto:2:1)");
  EXPECT_EQ(a.gemm_origins[2], "rule[1] (r.textproto:3:1)");
  EXPECT_EQ(a.amax_reduction.group, "g");
  EXPECT_FALSE(r.at(0, 1).gemm(Gemm::kDgrad).high_precision);
}

TEST(ResolveTest, ARoleBeatsAllWithinOneMessage) {
  const ResolvedModules r = Resolve(
      "defaults { weight { current {} } all { delayed {} } }\n"
      "rule { module: \"x\" all { high_precision {} } grad { delayed { margin: "
      "3 } } }",
      {"x", "y"});
  EXPECT_EQ(r.at(0, 1).policy(Role::kWeight).scaling, Scaling::kCurrent);
  EXPECT_EQ(r.at(0, 1).policy(Role::kInput).scaling, Scaling::kDelayed);
  EXPECT_EQ(r.at(0, 0).policy(Role::kWeight).scaling, Scaling::kHighPrecision);
  EXPECT_EQ(r.at(0, 0).policy(Role::kGrad).delayed.margin, 3);
}

TEST(ResolveTest, SameScalingInheritsFromTheRolesDefaultPolicy) {
  const ResolvedModules r = Resolve(
      "defaults { all { format: E4M3 delayed { margin: 2 amax_history_len: 16 "
      "non_finite_amax: FREEZE } } input { high_precision { dtype: FP32 } } }\n"
      "rule { module: \"x\" all { delayed { margin: 0 amax_compute_algo: "
      "MOST_RECENT } } }\n"
      "rule { module: \"y\" all { current {} } }\n"
      "rule { module: \"z\" all { high_precision {} } }",
      {"x", "y", "z"});
  // weight, grad: an explicit 0 wins over the inherited 2.
  const std::string inherited =
      "delayed E4M3 margin=0 amax_history_len=16 amax_compute_algo=MOST_RECENT "
      "non_finite_amax=FREEZE first_step=MEASURE";
  EXPECT_EQ(Get(r, 0, 0, Role::kWeight), inherited);
  EXPECT_EQ(Get(r, 0, 0, Role::kGrad), inherited);
  // input has another scaling in defaults: documented defaults.
  EXPECT_EQ(Get(r, 0, 0, Role::kInput),
            "delayed E4M3 margin=0 amax_history_len=1024 "
            "amax_compute_algo=MOST_RECENT non_finite_amax=SKIP "
            "first_step=MEASURE");
  // Another scaling does not inherit the format either.
  EXPECT_EQ(r.at(0, 1).policy(Role::kGrad).format, Format::kE5M2);
  EXPECT_EQ(Get(r, 0, 2, Role::kInput), "high_precision dtype=FP32");
  EXPECT_EQ(Get(r, 0, 2, Role::kGrad), kBF16);
}

TEST(ResolveTest, GemmsAndReductionDoNotInherit) {
  const ResolvedModules r = Resolve(
      "defaults { all { delayed {} } }\n"
      "matmul { dgrad { fast_accum: true } }\n"
      "amax_reduction { group: \"all\" }\n"
      "rule { module: \"x\" matmul { dgrad { high_precision: false } } "
      "amax_reduction { enabled: true } }",
      {"x", "y"});
  EXPECT_FALSE(r.at(0, 0).gemm(Gemm::kDgrad).fast_accum);
  EXPECT_EQ(r.at(0, 0).amax_reduction.group, "default");
  EXPECT_TRUE(r.at(0, 1).gemm(Gemm::kDgrad).fast_accum);
  EXPECT_EQ(r.at(0, 1).gemm_origins[1], "matmul");
  EXPECT_EQ(r.at(0, 1).amax_reduction.group, "all");
}

TEST(ResolveTest, PhasesAreScheduledAndDoNotAddUp) {
  const std::string text =
      "defaults { all { delayed {} } }\n"
      "rule { module: \"r\" all { current {} } }\n"
      "phase { from_step: 10 all { high_precision {} } rule { module: \"p\" "
      "grad { delayed { margin: 1 } } } }\n"
      "phase { from_step: 500 input { high_precision {} } }";
  const Recipe recipe = Make(text);
  EXPECT_THAT(recipe.phase_from_steps(), ElementsAre(0, 10, 500));
  EXPECT_EQ(recipe.ActivePhase(0), 0);
  EXPECT_EQ(recipe.ActivePhase(9), 0);
  EXPECT_EQ(recipe.ActivePhase(10), 1);
  EXPECT_EQ(recipe.ActivePhase(499), 1);
  EXPECT_EQ(recipe.ActivePhase(500), 2);
  EXPECT_EQ(recipe.ActivePhase(int64_t{1} << 60), 2);
  const ResolvedModules r = Resolve(text, {"r", "p"});
  ASSERT_EQ(r.phases(), 3);
  EXPECT_EQ(r.at(0, 0).policy(Role::kInput).scaling, Scaling::kCurrent);
  EXPECT_EQ(r.at(0, 1).policy(Role::kInput).scaling, Scaling::kDelayed);
  // The phase beats the recipe's rules; its own rules beat the phase.
  EXPECT_EQ(Get(r, 1, 0, Role::kInput), kBF16);
  EXPECT_EQ(r.at(1, 0).policy_origins[0], "phase[0]");
  EXPECT_EQ(r.at(1, 1).policy(Role::kGrad).delayed.margin, 1);
  EXPECT_EQ(r.at(1, 1).policy_origins[2],
            "phase[0].rule[0] (r.textproto:3:49)");
  EXPECT_EQ(Get(r, 1, 1, Role::kInput), kBF16);
  // The second phase knows nothing of the first.
  EXPECT_EQ(Get(r, 2, 0, Role::kInput), kBF16);
  EXPECT_EQ(r.at(2, 0).policy(Role::kWeight).scaling, Scaling::kCurrent);
  EXPECT_EQ(r.at(2, 1).policy(Role::kGrad).delayed.margin, 0);
}

TEST(ResolveTest, APhaseFromStepZeroLeavesNoOtherBefore) {
  const Recipe recipe = Make(
      "defaults { all { delayed {} } } phase { from_step: 0 all { "
      "high_precision {} } } phase { from_step: 500 }");
  EXPECT_THAT(recipe.phase_from_steps(), ElementsAre(0, 500));
  EXPECT_EQ(recipe.ActivePhase(0), 0);
  absl::StatusOr<ResolvedModules> r = recipe.Resolve({"m"});
  ASSERT_THAT(r, IsOk());
  ASSERT_EQ(r->phases(), 2);
  EXPECT_EQ(Get(*r, 0, 0, Role::kGrad), kBF16);
  EXPECT_EQ(Get(*r, 1, 0, Role::kGrad), kDelayedE5M2);
}

TEST(ResolveTest, PatternsMatchTheWholeName) {
  const ResolvedModules r = Resolve(
      "defaults { all { delayed {} } } rule { module: \"fc|head\" all { "
      "high_precision {} } }",
      {"fc", "fc1", "a.fc", "head", "header"});
  std::string got;
  for (size_t m = 0; m < 5; ++m) {
    got += Get(r, 0, m, Role::kInput) == kBF16 ? 'h' : 'd';
  }
  EXPECT_EQ(got, "hddhd");
}

TEST(ResolveTest, ModulesThatGetTheSameShareIt) {
  const ResolvedModules r = Resolve(
      "defaults { all { delayed {} } } rule { module: \"a.*\" all { current {} "
      "} }",
      {"a1", "b1", "a2", "b2"});
  EXPECT_EQ(&r.at(0, 0), &r.at(0, 2));
  EXPECT_EQ(&r.at(0, 1), &r.at(0, 3));
  EXPECT_NE(&r.at(0, 0), &r.at(0, 1));
}

// Which of ten layers (numbers 0, 10, 20 ... 90) a rule chooses.
std::vector<int> Chosen(const std::string& what) {
  std::vector<std::string> modules = {"embedding"};
  for (int i : {9, 1, 0, 2, 3, 4, 5, 6, 7, 8}) {
    modules.push_back(absl::StrCat("layers.", i * 10, ".fc1"));
    modules.push_back(absl::StrCat("layers.", i * 10, ".fc2"));
  }
  const ResolvedModules r = Resolve(
      absl::StrCat("defaults { all { delayed {} } } rule { layers { pattern: ",
                   "'layers\\\\.(\\\\d+)\\\\.(?:fc1|fc2)' ", what,
                   " } all { high_precision {} } }"),
      modules);
  std::vector<int> chosen;
  for (int i = 0; i < 10; ++i) {
    int of_layer = 0;
    for (size_t m = 0; m < modules.size(); ++m) {
      const bool in_layer =
          modules[m].find(absl::StrCat(".", i * 10, ".")) != std::string::npos;
      if (in_layer && Get(r, 0, m, Role::kInput) == kBF16) ++of_layer;
    }
    EXPECT_TRUE(of_layer == 0 || of_layer == 2);
    if (of_layer == 2) chosen.push_back(i);
  }
  EXPECT_EQ(Get(r, 0, 0, Role::kInput), kDelayedE4M3);
  return chosen;
}

TEST(ResolveTest, LayersAreChosenByNumber) {
  EXPECT_THAT(Chosen("first: 1"), ElementsAre(0));
  EXPECT_THAT(Chosen("last: 2"), ElementsAre(8, 9));
  EXPECT_THAT(Chosen("first: 1 last: 1"), ElementsAre(0, 9));
  EXPECT_THAT(Chosen("first: 2 last_percent: 15"), ElementsAre(0, 1, 8, 9));
  EXPECT_THAT(Chosen("last_percent: 10"), ElementsAre(9));
  EXPECT_THAT(Chosen("last_percent: 0.1"), ElementsAre(9));
  EXPECT_THAT(Chosen("last: 99"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(Chosen("last_percent: 100"),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(ResolveTest, ManyRulesThatNeedHugeAutomataStillMatchRight) {
  // Together these need far more states than fit; each alone is simple.
  const std::string letters = "abcdefghijklmnopqrst";
  std::string text = "defaults { all { delayed {} } }\n";
  for (char letter : letters) {
    absl::StrAppend(&text, "rule { module: \".*", std::string(1, letter),
                    ".{60}\" all { high_precision {} } }\n");
  }
  std::vector<std::string> modules;
  uint64_t state = 1;
  for (int m = 0; m < 1000; ++m) {
    std::string name = absl::StrCat("m", m, ".");
    while (name.size() < 100) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      name += static_cast<char>('a' + (state >> 33) % 25);
    }
    modules.push_back(name);
  }
  const ResolvedModules r = Resolve(text, modules);
  for (size_t m = 0; m < modules.size(); ++m) {
    const size_t rule = letters.find(modules[m][modules[m].size() - 61]);
    EXPECT_EQ(
        r.at(0, m).policy_origins[0],
        rule == std::string::npos
            ? std::string("defaults")
            : absl::StrCat("rule[", rule, "] (r.textproto:", rule + 2, ":1)"));
  }
}

}  // namespace
}  // namespace scalekeeper
