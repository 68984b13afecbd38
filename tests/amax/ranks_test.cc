// Several ranks and several threads: what is reduced, over which group.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

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

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

TEST(RanksTest, ScalesComeFromTheMaximumOverRanks) {  // M5, I7
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  for (int rank : {0, 1}) EXPECT_EQ(job.Scale(rank), 56);
  Job other(2, DelayedRecipe(""));
  ExpectAllOk(other.Freeze());
  ExpectAllOk(other.Step({100, 1}));
  for (int rank : {0, 1}) EXPECT_EQ(other.Scale(rank), 4.48f);
}

TEST(RanksTest, ANaNOnOneRankIsSeenOnAll) {
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  ExpectAllOk(job.Step({kNaN, 2}));
  for (int rank : {0, 1}) {
    EXPECT_EQ(job.Scale(rank), 56);
    EXPECT_THAT(job.state(rank).Check(Stream{}),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("m/input")));
  }
}

TEST(RanksTest, ARankWithoutWorkStillJoins) {  // G3, I13
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({8, 0}));
  for (int rank : {0, 1}) EXPECT_EQ(job.Scale(rank), 56);
  Job shards(2, DelayedRecipe(""));
  ExpectAllOk(shards.Freeze());
  shards.Observe(0, 0.5f);
  ExpectAllOk(shards.Step({4, 0}));
  for (int rank : {0, 1}) EXPECT_EQ(shards.Scale(rank), 112);
}

TEST(RanksTest, OneCollectivePerGroupAndUpdate) {  // I11
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  for (int update = 0; update < 3; ++update) ExpectAllOk(job.Step({1, 8}));
  const int64_t freeze_calls = job.flaky(0).calls() - 3;
  EXPECT_EQ(freeze_calls, 1) << "equal ranks agree in one collective";
  for (int rank : {0, 1}) {
    EXPECT_EQ(job.state(rank).counters().collectives, 3);
    EXPECT_EQ(job.state(rank).counters().updates, 3);
    EXPECT_EQ(job.Scale(rank), 56);
  }
  Job local(2, DelayedRecipe("", "amax_reduction { enabled: false }"));
  ExpectAllOk(local.Freeze());
  for (int update = 0; update < 3; ++update) ExpectAllOk(local.Step({1, 8}));
  EXPECT_EQ(local.state(0).counters().collectives, 0);
  EXPECT_EQ(local.Scale(0), 448);
  EXPECT_EQ(local.Scale(1), 56);
}

TEST(RanksTest, OneRankDiscardsAStepForAll) {
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  ExpectAllOk(job.OnAll([&](int rank) {
    job.Observe(rank, 100);
    return rank == 1 ? job.state(rank).DiscardStep(Stream{})
                     : job.state(rank).EndStep(Stream{});
  }));
  for (int rank : {0, 1}) {
    EXPECT_EQ(job.Scale(rank), 56);
    EXPECT_EQ(job.state(rank).counters().skipped, 1);
  }
}

TEST(RanksTest, ASlowReductionIsWaitedFor) {  // I10
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  job.flaky(1).delay = absl::Milliseconds(5);
  for (int run = 0; run < 100; ++run) {
    ExpectAllOk(job.Step({1, 8}));
    for (int rank : {0, 1}) ASSERT_EQ(job.Scale(rank), 56);
  }
}

TEST(RanksTest, GroupsDecideWhoAgrees) {  // I3
  // TP = 2, DP = 2: amax 1, 4, 2, 8; DP groups {0, 2} and {1, 3}.
  const std::vector<float> amaxes = {1, 4, 2, 8};
  Job world(4, DelayedRecipe(""));
  ExpectAllOk(world.Freeze());
  ExpectAllOk(world.Step(amaxes));
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(world.Scale(rank), 56);

  auto even = CreateInProcessCommunicators(2);
  auto odd = CreateInProcessCommunicators(2);
  RunRanks(4, [&](int rank) {
    RecipeStateOptions options;
    auto& dp = rank % 2 == 0 ? even : odd;
    options.groups["default"] = dp[static_cast<size_t>(rank / 2)].get();
    OneModule m = FrozenModule(DelayedRecipe(""), options);
    EXPECT_THAT(m.Step(amaxes[static_cast<size_t>(rank)]), IsOk());
    EXPECT_EQ(m.Scale(), rank % 2 == 0 ? 224 : 56);
  });
}

TEST(RanksTest, ARankInTwoGroupsReducesEachSlotOverItsOwn) {
  // Rank 1 is in both groups; names are walked in one order, so no deadlock.
  const std::string recipe = DelayedRecipe(
      "",
      "rule { module: \"b\" amax_reduction { group: \"beta\" } }\n"
      "rule { module: \"l\" amax_reduction { enabled: false } }\n"
      "amax_reduction { group: \"alpha\" }");
  auto alpha = CreateInProcessCommunicators(2);
  auto beta = CreateInProcessCommunicators(2);
  RunRanks(2, [&](int rank) {
    RecipeStateOptions options;
    options.groups["alpha"] = alpha[static_cast<size_t>(rank)].get();
    // The other numbering in beta.
    options.groups["beta"] = beta[static_cast<size_t>(1 - rank)].get();
    auto state = MakeState(recipe, options);
    const ModuleSlots l = ValueOrDie(state->AddModule("l"));
    const ModuleSlots b = ValueOrDie(state->AddModule("b"));
    const ModuleSlots a = ValueOrDie(state->AddModule("a"));
    ASSERT_THAT(state->Freeze(), IsOk());
    EXPECT_THAT(state->groups(), ::testing::ElementsAre("alpha", "beta"));
    for (int step = 0; step < 50; ++step) {
      Observe(state->View(a.input), FloatBits(rank == 0 ? 8 : 1));
      Observe(state->View(b.input), FloatBits(rank == 0 ? 2 : 4));
      Observe(state->View(l.input), FloatBits(rank == 0 ? 1 : 16));
      ASSERT_THAT(state->EndStep(Stream{}), IsOk());
    }
    EXPECT_THAT(state->Scale(a.input, Stream{}), IsOkAndHolds(56.0f));
    EXPECT_THAT(state->Scale(b.input, Stream{}), IsOkAndHolds(112.0f));
    EXPECT_THAT(state->Scale(l.input, Stream{}),
                IsOkAndHolds(rank == 0 ? 448.0f : 28.0f));
    EXPECT_EQ(state->counters().collectives, 100);
  });
}

TEST(RanksTest, AGroupThatIsNotBoundIsNamed) {
  auto group = CreateInProcessCommunicators(1);
  RecipeStateOptions options;
  options.groups["data"] = group[0].get();
  OneModule m(DelayedRecipe("", "amax_reduction { group: \"dp\" }"), options);
  EXPECT_THAT(m.Freeze(),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("\"dp\""), HasSubstr("\"data\""),
                             HasSubstr("amax_reduction.group"))));
}

TEST(ThreadsTest, SlotsAreObservedFromManyThreadsAtOnce) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  for (int step = 1; step <= 5; ++step) {
    RunRanks(8, [&](int thread) {
      for (int i = 0; i < 2000; ++i) {
        Observe(m.state->View(m.slots.slot(kRoles[static_cast<size_t>(i % 3)])),
                FloatBits(static_cast<float>(i % 1000 + thread)));
      }
    });
    ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
    EXPECT_EQ(m.Scale(), 448.0f / 1006);
  }
}

TEST(ThreadsTest, ManyStatesLiveInOneProcess) {
  RunRanks(6, [&](int index) {
    OneModule m =
        FrozenModule(DelayedRecipe("margin: " + std::to_string(index)));
    for (int step = 0; step < 100; ++step) ASSERT_THAT(m.Step(1), IsOk());
    EXPECT_EQ(m.Scale(), 448.0f / static_cast<float>(1 << index));
  });
}

}  // namespace
}  // namespace scalekeeper
