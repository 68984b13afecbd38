// Freeze of several ranks: what differs is named, on every rank.
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/job_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

TEST(FreezeTest, ALackingModuleIsNamedOnEveryRank) {  // I2
  const std::string recipe = DelayedRecipe("");
  Job job(2, {recipe, recipe}, {{"a", "b", "c"}, {"a", "b"}});
  const absl::Time begin = absl::Now();
  for (const absl::Status& status : job.Freeze()) {
    EXPECT_THAT(status, StatusIs(kFailedPrecondition,
                                 AllOf(HasSubstr("group \"default\""),
                                       HasSubstr("rank 1 lacks \"c/input\""))));
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST(FreezeTest, AnExtraModuleIsNamedOnEveryRank) {
  const std::string recipe = DelayedRecipe("");
  Job job(3, {recipe, recipe, recipe}, {{"a"}, {"a"}, {"a", "x"}});
  for (const absl::Status& status : job.Freeze()) {
    EXPECT_THAT(status, StatusIs(kFailedPrecondition,
                                 AllOf(HasSubstr("rank 0 lacks \"x/input\""),
                                       HasSubstr("of rank 2"))));
  }
}

TEST(FreezeTest, PipelineStagesInOneGroupAreRefusedAndPerStageWork) {  // I8
  const std::string recipe = DelayedRecipe("");
  const std::vector<std::vector<std::string>> modules = {
      {"a"}, {"a"}, {"b", "c"}, {"b", "c"}};
  Job world(4, {recipe, recipe, recipe, recipe}, modules);
  for (const absl::Status& status : world.Freeze()) {
    EXPECT_THAT(status,
                StatusIs(kFailedPrecondition, AllOf(HasSubstr("\"a/input\""),
                                                    HasSubstr("\"b/input\""),
                                                    HasSubstr("\"c/input\""))));
  }
  Job first(2, {recipe, recipe}, {modules[0], modules[1]});
  Job second(2, {recipe, recipe}, {modules[2], modules[3]});
  ExpectAllOk(first.Freeze());
  ExpectAllOk(second.Freeze());
}

TEST(FreezeTest, DifferentExpertsBehindOneNameAreTold) {
  const auto freeze = [](const std::vector<std::string>& identities) {
    const auto group = CreateInProcessCommunicators(2);
    std::vector<absl::Status> statuses(2);
    RunRanks(2, [&](int rank) {
      const size_t r = static_cast<size_t>(rank);
      RecipeStateOptions options;
      options.groups["default"] = group[r].get();
      auto state = MakeState(DelayedRecipe(""), options);
      EXPECT_THAT(state->AddModule("local_experts.0", identities[r]), IsOk());
      statuses[r] = state->Freeze();
    });
    return statuses;
  };
  for (const absl::Status& status : freeze({"expert 0", "expert 8"})) {
    EXPECT_THAT(status, StatusIs(kFailedPrecondition,
                                 AllOf(HasSubstr("\"local_experts.0/input\""),
                                       HasSubstr("identity \"expert 0\""),
                                       HasSubstr("identity \"expert 8\""))));
  }
  ExpectAllOk(freeze({"expert 8", "expert 8"}));
  EXPECT_THAT(MakeState(DelayedRecipe(""))->AddModule("m", "a\nb"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("identity \"a\\nb\"")));
}

TEST(FreezeTest, RecipesThatDifferAreNamedOnEveryRank) {
  Job job(2, {DelayedRecipe("margin: 1"), DelayedRecipe("margin: 2")},
          {{"a"}, {"a"}});
  for (const absl::Status& status : job.Freeze()) {
    EXPECT_THAT(status,
                StatusIs(kFailedPrecondition,
                         AllOf(HasSubstr("\"a/input\" is {"),
                               HasSubstr("margin=1"), HasSubstr("margin=2"),
                               HasSubstr("the recipes differ"))));
  }
  // Only a GEMM's option: no slot differs, the recipe's line does.
  Job gemm(2,
           {DelayedRecipe("", "matmul { dgrad { fast_accum: true } }"),
            DelayedRecipe("")},
           {{"a"}, {"a"}});
  for (const absl::Status& status : gemm.Freeze()) {
    EXPECT_THAT(status, StatusIs(kFailedPrecondition,
                                 AllOf(HasSubstr("recipe lines only on rank 0"),
                                       HasSubstr("fast_accum: true"))));
  }
}

TEST(FreezeTest, OnlyTheOrderOfAddingIsFree) {
  const std::string recipe = DelayedRecipe("");
  Job job(2, {recipe, recipe}, {{"a", "b"}, {"b", "a"}});
  ExpectAllOk(job.Freeze());
}

TEST(FreezeTest, AnErrorOfOneRankReachesAll) {
  // Rank 1's rule matches nothing: Resolve fails there before any collective.
  Job job(2,
          {DelayedRecipe(""),
           DelayedRecipe("",
                         "rule { module: \"nope\" all { high_precision { } "
                         "} }")},
          {{"a"}, {"a"}});
  const std::vector<absl::Status> statuses = job.Freeze();
  EXPECT_THAT(statuses[1],
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nope")));
  EXPECT_THAT(statuses[0],
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("rank 1: "), HasSubstr("nope"))));
}

TEST(FreezeTest, AnErrorTravelsThroughARankThatIsInTwoGroups) {
  // Ranks 0 and 1 differ in "alpha"; rank 2 shares only "beta" with rank 1.
  const std::string recipe = DelayedRecipe(
      "",
      "rule { module: \"b\" amax_reduction { group: \"beta\" } }\n"
      "amax_reduction { group: \"alpha\" }");
  auto alpha = CreateInProcessCommunicators(2);
  auto beta = CreateInProcessCommunicators(2);
  auto alone = CreateInProcessCommunicators(1);
  auto alone_too = CreateInProcessCommunicators(1);
  RunRanks(3, [&](int rank) {
    RecipeStateOptions options;
    options.groups["alpha"] =
        rank < 2 ? alpha[static_cast<size_t>(rank)].get() : alone[0].get();
    options.groups["beta"] = rank > 0
                                 ? beta[static_cast<size_t>(rank - 1)].get()
                                 : alone_too[0].get();
    auto state = MakeState(recipe, options);
    ASSERT_THAT(state->AddModule("b"), IsOk());
    ASSERT_THAT(state->AddModule("a"), IsOk());
    if (rank == 0) {
      ASSERT_THAT(state->AddModule("a2"), IsOk());
    }
    EXPECT_THAT(state->Freeze(),
                StatusIs(kFailedPrecondition, HasSubstr("\"a2/input\"")));
    EXPECT_FALSE(state->frozen());
  });
}

TEST(FreezeTest, ARankThatNeverComesEndsInDeadlineExceeded) {
  Job job(2, DelayedRecipe(""), absl::Milliseconds(200));
  EXPECT_THAT(job.state(0).Freeze(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("Freeze, group \"default\""),
                             HasSubstr("rank 1 of 2"))));
}

}  // namespace
}  // namespace scalekeeper
