// Several ranks: what is reduced, over which group, and that every failure is
// loud, on every rank, and leaves the state as it was.
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "amax/in_process_communicator.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/flaky_communicator.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

// Ranks that each own a state of the same recipe, bound to one group.
class Job {
 public:
  Job(int size, const std::string& recipe,
      absl::Duration deadline = absl::Seconds(60))
      : Job(size, std::vector<std::string>(static_cast<size_t>(size), recipe),
            std::vector<std::vector<std::string>>(static_cast<size_t>(size),
                                                  {"m"}),
            deadline) {}
  Job(int size, const std::vector<std::string>& recipes,
      const std::vector<std::vector<std::string>>& modules,
      absl::Duration deadline = absl::Seconds(60)) {
    InProcessCommunicatorOptions options;
    options.deadline = deadline;
    group_ = CreateInProcessCommunicators(size, options);
    for (size_t r = 0; r < static_cast<size_t>(size); ++r) {
      flaky_.push_back(std::make_unique<FlakyCommunicator>(group_[r].get()));
      RecipeStateOptions state_options;
      state_options.groups["default"] = flaky_.back().get();
      states_.push_back(MakeState(recipes[r], state_options));
      for (const std::string& module : modules[r]) {
        slots_.push_back(ValueOrDie(states_.back()->AddModule(module)));
      }
    }
  }

  int size() const { return static_cast<int>(states_.size()); }
  RecipeState& state(int rank) { return *states_[static_cast<size_t>(rank)]; }
  FlakyCommunicator& flaky(int rank) {
    return *flaky_[static_cast<size_t>(rank)];
  }
  // With one module per rank.
  SlotId input(int rank) { return slots_[static_cast<size_t>(rank)].input; }
  float Scale(int rank) {
    return ValueOrDie(state(rank).Scale(input(rank), Stream{}));
  }
  void Observe(int rank, float amax) {
    scalekeeper::Observe(state(rank).View(input(rank)), FloatBits(amax));
  }
  std::vector<absl::Status> OnAll(
      const std::function<absl::Status(int)>& body) {
    std::vector<absl::Status> statuses(states_.size());
    RunRanks(size(), [&](int rank) {
      statuses[static_cast<size_t>(rank)] = body(rank);
    });
    return statuses;
  }
  std::vector<absl::Status> Freeze() {
    return OnAll([&](int rank) { return state(rank).Freeze(); });
  }
  std::vector<absl::Status> Step(const std::vector<float>& amaxes) {
    return OnAll([&](int rank) {
      const float amax = amaxes[static_cast<size_t>(rank)];
      if (amax != 0) Observe(rank, amax);
      return state(rank).EndStep(Stream{});
    });
  }

 private:
  std::vector<std::unique_ptr<Communicator>> group_;
  std::vector<std::unique_ptr<FlakyCommunicator>> flaky_;
  std::vector<std::unique_ptr<RecipeState>> states_;
  std::vector<ModuleSlots> slots_;
};

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

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

// --------------------------------------------------- ranks that differ

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

// ----------------------------------------------------- failures in a step

TEST(FailureTest, AMissingRankLeavesTheStateWhollyBefore) {  // I14
  Job job(2, DelayedRecipe(""), absl::Seconds(1));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  job.Observe(0, 64);
  EXPECT_THAT(
      job.state(0).EndStep(Stream{}),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("EndStep of step 1"),
                     HasSubstr("group \"default\""), HasSubstr("rank 1 of 2"),
                     HasSubstr("collective 2 of 8 words"))));
  job.Observe(1, 32);
  EXPECT_THAT(
      job.state(1).EndStep(Stream{}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1 of 2")))
      << "late, and told the same";
  for (int rank : {0, 1}) {
    EXPECT_EQ(job.state(rank).step(), 1);
    EXPECT_EQ(job.Scale(rank), 56);
    EXPECT_EQ(*job.state(rank).View(job.input(rank)).amax,
              FloatBits(rank == 0 ? 64 : 32))
        << "observations are kept";
    EXPECT_EQ(job.state(rank).counters().updates, 1);
    EXPECT_EQ(job.state(rank).counters().collectives, 1);
    EXPECT_THAT(job.state(rank).Check(Stream{}),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("EndStep of step 1")));
    EXPECT_THAT(job.state(rank).ClearFlags(Stream{}), IsOk());
    EXPECT_THAT(job.state(rank).Check(Stream{}), IsOk());
  }
}

TEST(FailureTest, AFailedReductionCanBeTriedAgain) {
  for (int64_t failing = 1; failing <= 4; ++failing) {
    auto group = CreateInProcessCommunicators(1);
    FlakyCommunicator flaky(group[0].get());
    RecipeStateOptions options;
    options.groups["default"] = &flaky;
    OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 2"), options);
    flaky.fail_call = failing;
    const std::vector<float> amaxes = {8, 1, 2, 4};
    const std::vector<float> scales = {56, 56, 224, 112};
    for (size_t i = 0; i < amaxes.size(); ++i) {
      m.Observe(amaxes[i]);
      absl::Status status = m.state->EndStep(Stream{});
      if (static_cast<int64_t>(i) + 1 == failing) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted,
                                     AllOf(HasSubstr("injected"),
                                           HasSubstr("\"default\""))));
        EXPECT_EQ(m.Scale(), i == 0 ? 1 : scales[i - 1]);
        EXPECT_EQ(m.state->step(), static_cast<int64_t>(i));
        status = m.state->EndStep(Stream{});  // nothing was lost
      }
      EXPECT_THAT(status, IsOk());
      EXPECT_EQ(m.Scale(), scales[i]);
    }
  }
}

TEST(FailureTest, NoSlotIsUpdatedWhenOneOfTwoGroupsFails) {
  auto alpha = CreateInProcessCommunicators(1);
  auto beta = CreateInProcessCommunicators(1);
  FlakyCommunicator flaky(beta[0].get());
  RecipeStateOptions options;
  options.groups = {{"alpha", alpha[0].get()}, {"beta", &flaky}};
  auto state = MakeState(
      DelayedRecipe(
          "",
          "rule { module: \"b\" amax_reduction { group: \"beta\" } }\n"
          "amax_reduction { group: \"alpha\" }"),
      options);
  const ModuleSlots a = ValueOrDie(state->AddModule("a"));
  const ModuleSlots b = ValueOrDie(state->AddModule("b"));
  ASSERT_THAT(state->Freeze(), IsOk());
  flaky.fail_call = 1;
  Observe(state->View(a.input), FloatBits(8));
  Observe(state->View(b.input), FloatBits(8));
  EXPECT_THAT(state->EndStep(Stream{}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("\"beta\"")));
  EXPECT_THAT(state->Scale(a.input, Stream{}), IsOkAndHolds(1.0f));
  EXPECT_THAT(state->Scale(b.input, Stream{}), IsOkAndHolds(1.0f));
  EXPECT_EQ(state->counters().collectives, 0);
  ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  EXPECT_THAT(state->Scale(a.input, Stream{}), IsOkAndHolds(56.0f));
}

TEST(FailureTest, ASkipOnOneRankDropsTheStepOnAll) {
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  const uint32_t flags[] = {0, 1};
  ExpectAllOk(job.OnAll([&](int rank) {
    job.Observe(rank, 1000);
    return job.state(rank).EndStep(Stream{}, &flags[rank]);
  }));
  for (int rank : {0, 1}) {
    EXPECT_EQ(job.Scale(rank), 56);
    EXPECT_EQ(job.state(rank).counters().skipped, 1);
    EXPECT_EQ(job.state(rank).step(), 2);
    EXPECT_EQ(*job.state(rank).View(job.input(rank)).amax, 0u);
  }
  ExpectAllOk(job.Step({16, 8}));
  for (int rank : {0, 1}) EXPECT_EQ(job.Scale(rank), 28);
}

// ------------------------------------------------- ranks that drift apart

TEST(DisagreementTest, ARankThatWasRestoredAloneIsNoticedOnEveryRank) {
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  ExpectAllOk(job.Step({1, 16}));
  ASSERT_THAT(job.state(1).RestorePrevious(Stream{}), IsOk());
  for (const absl::Status& status : job.Step({1, 64})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                 AllOf(HasSubstr("\"default\""),
                                       HasSubstr("do not agree"))));
  }
  for (int rank : {0, 1}) {
    EXPECT_EQ(job.Scale(rank), rank == 0 ? 28 : 56) << "nothing was updated";
    EXPECT_THAT(job.state(rank).Check(Stream{}),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("did not")));
  }
  // The other one goes back too: they agree again, and nothing was lost.
  ASSERT_THAT(job.state(0).RestorePrevious(Stream{}), IsOk());
  ExpectAllOk(job.Step({1, 16}));
  for (int rank : {0, 1}) {
    EXPECT_THAT(job.state(rank).Check(Stream{}),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("did not")))
        << "sticky";
    ASSERT_THAT(job.state(rank).ClearFlags(Stream{}), IsOk());
    EXPECT_THAT(job.state(rank).Check(Stream{}), IsOk());
  }
}

TEST(DisagreementTest, AnotherStepNumberOrPhaseIsNoticed) {
  for (int64_t step : {7, 500}) {
    Job job(2, DelayedRecipe("",
                             "phase { from_step: 500 all { format: E4M3 "
                             "delayed { margin: 1 } } }"));
    ExpectAllOk(job.Freeze());
    ASSERT_THAT(job.state(1).SetStep(step), IsOk());
    for (const absl::Status& status : job.Step({1, 8})) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                   HasSubstr("do not agree")));
    }
  }
}

TEST(DisagreementTest, AScaleThatDiffersIsNoticed) {
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  // What a bad cable did to one rank's result of this step ...
  ExpectAllOk(job.OnAll([&](int rank) {
    SK_RETURN_IF_ERROR(job.state(rank).Pack(Stream{}));
    const AmaxMessageView message =
        ValueOrDie(job.state(rank).AmaxMessage("default"));
    message.data[0] = FloatBits(rank == 0 ? 16 : 32);
    return job.state(rank).Update(Stream{});
  }));
  EXPECT_NE(job.Scale(0), job.Scale(1));
  // ... is noticed in the next one.
  for (const absl::Status& status : job.Step({1, 1})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("do not agree")));
  }
}

TEST(DisagreementTest, TamperedControlWordsAreNoticed) {
  Job job(2, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  job.flaky(0).tamper = [](int64_t, absl::Span<uint32_t> words) {
    words[words.size() - 1] = 0xFFFFFFFFu;
  };
  for (const absl::Status& status : job.Step({1, 8})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("do not agree")));
  }
}

TEST(DisagreementTest, EveryControlWordCounts) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  for (size_t word = 1; word < 5; ++word) {
    m.Observe(8);
    ASSERT_THAT(m.state->Pack(Stream{}), IsOk());
    const AmaxMessageView message = ValueOrDie(m.state->AmaxMessage("default"));
    ASSERT_EQ(message.count, 3u + 5u);
    message.data[3 + word] ^= 1;
    EXPECT_THAT(m.state->Update(Stream{}),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("step 0")))
        << "word " << word;
    EXPECT_EQ(m.Scale(), 1);
    EXPECT_THAT(m.state->Update(Stream{}),
                StatusIs(kFailedPrecondition, HasSubstr("without Pack")));
  }
  ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
  EXPECT_EQ(m.Scale(), 56) << "the observation was kept";
}

TEST(SurvivorsTest, AllGoBackToTheSameStepAfterALostRank) {
  // Rank 0's group "a" reduced with rank 1 before "b" failed on rank 0 only:
  // rank 1 completed the step, rank 0 did not.
  auto a = CreateInProcessCommunicators(2);
  std::vector<std::unique_ptr<FlakyCommunicator>> flaky;
  std::vector<std::unique_ptr<RecipeState>> states;
  std::vector<SlotId> slots;
  for (size_t r : {0, 1}) {
    flaky.push_back(std::make_unique<FlakyCommunicator>(a[r].get()));
    RecipeStateOptions options;
    options.groups["default"] = flaky.back().get();
    states.push_back(MakeState(DelayedRecipe(""), options));
    slots.push_back(ValueOrDie(states.back()->AddModule("m")).input);
  }
  RunRanks(2, [&](int rank) {
    const size_t r = static_cast<size_t>(rank);
    ASSERT_THAT(states[r]->Freeze(), IsOk());
    flaky[r]->join = true;
    if (rank == 0) flaky[r]->fail_call = 2;
    Observe(states[r]->View(slots[r]), FloatBits(8));
    ASSERT_THAT(states[r]->EndStep(Stream{}), IsOk());
    Observe(states[r]->View(slots[r]), FloatBits(64));
    const absl::Status status = states[r]->EndStep(Stream{});
    EXPECT_EQ(status.ok(), rank == 1);
    EXPECT_EQ(states[r]->step(), rank == 0 ? 1 : 2);
    if (rank == 1) {
      EXPECT_THAT(states[r]->RestorePrevious(Stream{}), IsOk());
    }
    EXPECT_EQ(states[r]->step(), 1);
    EXPECT_THAT(states[r]->Scale(slots[r], Stream{}), IsOkAndHolds(56.0f));
    Observe(states[r]->View(slots[r]), FloatBits(32));
    EXPECT_THAT(states[r]->EndStep(Stream{}), IsOk());
    EXPECT_THAT(states[r]->Scale(slots[r], Stream{}), IsOkAndHolds(7.0f))
        << "rank 0 kept its observation of 64";
  });
}

// ------------------------------------------------------------- threads

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
