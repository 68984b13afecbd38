// The checks of a recipe that need the names of the modules.
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

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ResolveFaultsTest, LayersThatChooseNothingAreAnError) {
  EXPECT_THAT(Make("defaults { all { delayed {} } } rule { layers { pattern: "
                   "'l(\\\\d+)' first: 0 } all { high_precision {} } }")
                  .Resolve({"l1"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rule[0].layers.pattern: got")));
}

TEST(ResolveFaultsTest, ALayersGroupThatCapturesNoNumberIsAnError) {
  EXPECT_THAT(
      Make("defaults { all { delayed {} } } rule { layers { pattern: "
           "'l(.*)' first: 1 } all { high_precision {} } }")
          .Resolve({"l1", "lx", "ly"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "r.textproto:1:49: error: rule[0].layers.pattern: got "
               "no layer number from module \"lx\" with \"l(.*)\", want "
               "digits in its group, at most 2^63 - 1"));
}

// M6: a pattern that matches nothing.
TEST(ResolveFaultsTest, M6DeadPatternNamesTheNearestModule) {
  std::vector<std::string> modules;
  for (int i = 0; i < 12; ++i) {
    modules.push_back(absl::StrCat("model.layers.", i, ".mlp"));
  }
  const std::string text =
      "defaults { all { delayed {} } }\n"
      "rule { module: \"model\\\\.layer\\\\.0\\\\..*\" all { high_precision {} "
      "}";
  EXPECT_THAT(Make(text + " }").Resolve(modules),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "r.textproto:2:8: error: rule[0].module: got "
                       "\"model\\.layer\\.0\\..*\", which matches none of 12 "
                       "modules, nearest is \"model.layers.0.mlp\", want a "
                       "match or optional: true"));
  const ResolvedModules r = Resolve(text + " optional: true }", modules);
  EXPECT_THAT(r.warnings(),
              ElementsAre("r.textproto:2:8: warning: rule[0].module: got "
                          "\"model\\.layer\\.0\\..*\", which matches none of "
                          "12 modules, nearest is \"model.layers.0.mlp\""));
  EXPECT_EQ(Get(r, 0, 0, Role::kInput), kDelayedE4M3);
}

TEST(ResolveFaultsTest, ARuleThatMatchesInAPhaseOnlyIsChecked) {
  EXPECT_THAT(
      Make(
          "defaults { all { delayed {} } } phase { from_step: 1 rule { module: "
          "\"zzz\" all { high_precision {} } } }")
          .Resolve({"a"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "r.textproto:1:61: error: phase[0].rule[0].module: got \"zzz\", "
               "which matches none of 1 modules, want a match or optional: "
               "true"));
}

TEST(ResolveFaultsTest, ARuleWhoseItemsAreAllTakenIsAnError) {
  const Recipe recipe = Make(
      "defaults { all { delayed {} } }\n"
      "rule { module: \"a.*\" all { current {} } }\n"
      "rule { module: \"ab.*\" grad { high_precision {} } }");
  EXPECT_THAT(recipe.Resolve({"a1", "ab1"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "r.textproto:3:1: error: rule[1]: never applies: "
                       "earlier rules set all its items for every module that "
                       "it matches (as \"ab1\"), want it before them or "
                       "removed"));
}

TEST(ResolveFaultsTest, E5M2PairsNameModuleAndPhase) {
  const Recipe recipe = Make(
      "defaults { all { format: E4M3 delayed {} } }\n"
      "phase { from_step: 7\n"
      "  rule { module: \"a.*\" input { format: E5M2 delayed {} } }\n"
      "  rule { module: \".*b\" grad { format: E5M2 delayed {} } } }");
  EXPECT_THAT(recipe.Resolve({"a", "b"}), IsOk());
  EXPECT_THAT(recipe.Resolve({"a", "ab", "aab", "b"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "r.textproto:3:32: error: "
                       "phase[0].rule[0].input.format: got E5M2 for input of "
                       "module \"ab\" in phase[0] while grad is E5M2 too "
                       "(phase[0].rule[1] (r.textproto:4:3)), want at most one "
                       "E5M2 operand in wgrad"));
}

TEST(ResolveFaultsTest, AHighPrecisionGemmMayHaveTwoE5M2Tensors) {
  const Recipe recipe = Make(
      "defaults { all { format: E4M3 delayed {} } }\n"
      "rule { module: \"a.*\" input { format: E5M2 delayed {} } matmul { wgrad "
      "{ high_precision: true } } }\n"
      "rule { module: \".*b\" grad { format: E5M2 delayed {} } }");
  EXPECT_THAT(recipe.Resolve({"ab"}), IsOk());
}

TEST(ResolveFaultsTest, BadModuleNamesAreErrors) {
  const Recipe recipe = Make("defaults { all { delayed {} } }");
  EXPECT_THAT(recipe.Resolve({"a", "", "b", "a"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "modules[1]: got an empty name, want a module name\n"
                       "modules[3]: got \"a\", which modules[0] is already "
                       "called, want unique names"));
}

TEST(ResolveFaultsTest, NoModulesAreFineWithoutRules) {
  absl::StatusOr<ResolvedModules> r =
      Make("defaults { all { delayed {} } }").Resolve({});
  ASSERT_THAT(r, IsOk());
  EXPECT_EQ(r->phases(), 1);
  EXPECT_THAT(r->warnings(), IsEmpty());
}

TEST(ResolveFaultsTest, AllFaultsAreReportedAtOnce) {
  EXPECT_THAT(
      Make("defaults { all { delayed {} } }\n"
           "rule { module: \"x1\" all { high_precision {} } }\n"
           "rule { module: \"y1\" all { high_precision {} } optional: true }\n"
           "rule { module: \"z1\" all { high_precision {} } }")
          .Resolve({"head"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("r.textproto:2:8: "), Not(HasSubstr(":3:8: ")),
                     HasSubstr("\nr.textproto:4:8: "))));
}

}  // namespace
}  // namespace scalekeeper
