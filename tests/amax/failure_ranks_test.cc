// Several ranks whose step fails or that have drifted apart: every failure is
// loud, on every rank, and leaves the state as it was.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "amax/in_process_communicator.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/job_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/flaky_communicator.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

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

}  // namespace
}  // namespace scalekeeper
