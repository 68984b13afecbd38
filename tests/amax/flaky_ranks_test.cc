// One rank's collectives are late, lost, of another size or fail: whatever the
// fault and the collective, every rank's state is wholly that before or after
// the step, and all can be brought to one step.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "amax/in_process_communicator.h"
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

// After one step with amax 8 and a failed one.
void ExpectBeforeTheSecondStep(Job& job) {
  for (int rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(job.state(rank).step(), 1);
    EXPECT_EQ(job.Scale(rank), 56);
    EXPECT_EQ(job.state(rank).counters().updates, 1);
    EXPECT_EQ(*job.state(rank).View(job.input(rank)).amax,
              FloatBits(static_cast<float>(64 + rank)))
        << "observations are kept";
  }
}

TEST(FlakyTest, ADelayWithinTheDeadlineChangesNothing) {
  Job job(3, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  job.flaky(1).delay = absl::Milliseconds(30);
  ExpectAllOk(job.Step({1, 8, 2}));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.Scale(rank), 56);
}

TEST(FlakyTest, ADelayBeyondTheDeadlineEndsTheStepOnAll) {
  Job job(3, DelayedRecipe(""), absl::Milliseconds(300));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8, 2}));
  job.flaky(1).delay = absl::Milliseconds(900);
  for (const absl::Status& status : job.Step({64, 65, 66})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 AllOf(HasSubstr("EndStep of step 1"),
                                       HasSubstr("group \"default\""),
                                       HasSubstr("rank 1 of 3"))));
  }
  ExpectBeforeTheSecondStep(job);
}

TEST(FlakyTest, ADroppedMessageEndsInDeadlineExceededOnAll) {
  Job job(3, DelayedRecipe(""), absl::Milliseconds(500));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8, 2}));
  job.flaky(1).drop_call = job.flaky(1).calls();
  const absl::Time begin = absl::Now();
  const std::vector<absl::Status> statuses = job.Step({64, 65, 66});
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(
        statuses[static_cast<size_t>(rank)],
        StatusIs(absl::StatusCode::kDeadlineExceeded,
                 AllOf(HasSubstr("EndStep of step 1"),
                       HasSubstr(rank == 1 ? "dropped call" : "rank 1 of 3"))));
  }
  ExpectBeforeTheSecondStep(job);
  // The group is of no use any more, and says why.
  for (const absl::Status& status : job.Step({0, 0, 0})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 HasSubstr("rank 1 of 3")));
  }
  ExpectBeforeTheSecondStep(job);
}

TEST(FlakyTest, AnotherSizeIsRefusedOnAll) {
  Job job(3, DelayedRecipe(""));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8, 2}));
  job.flaky(1).wrong_size_call = job.flaky(1).calls();
  for (const absl::Status& status : job.Step({64, 65, 66})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("EndStep of step 1"),
                                       HasSubstr("rank 0 brings 8 words"),
                                       HasSubstr("rank 1 brings 9 words"))));
  }
  ExpectBeforeTheSecondStep(job);
}

TEST(FlakyTest, AnyFailureOfFreezeIsLoudAndCanBeTriedAgain) {
  auto group = CreateInProcessCommunicators(1);
  FlakyCommunicator flaky(group[0].get());
  flaky.fail_call = 0;
  RecipeStateOptions options;
  options.groups["default"] = &flaky;
  OneModule m(DelayedRecipe(""), options);
  EXPECT_THAT(m.Freeze(), StatusIs(absl::StatusCode::kAborted,
                                   AllOf(HasSubstr("Freeze"),
                                         HasSubstr("injected into call 0"))));
  EXPECT_FALSE(m.state->frozen());
  ASSERT_THAT(m.Freeze(), IsOk());
  EXPECT_THAT(m.Step(8), IsOk());
  EXPECT_EQ(m.Scale(), 56);
}

// Three ranks in two groups, which are joined in the order of their names.
struct TwoGroups {
  explicit TwoGroups(absl::Duration deadline) {
    InProcessCommunicatorOptions options;
    options.deadline = deadline;
    first = CreateInProcessCommunicators(3, options);
    last = CreateInProcessCommunicators(3, options);
    for (size_t r = 0; r < 3; ++r) {
      flaky_first.push_back(
          std::make_unique<FlakyCommunicator>(first[r].get()));
      flaky_last.push_back(std::make_unique<FlakyCommunicator>(last[r].get()));
      RecipeStateOptions state_options;
      state_options.groups = {{"alpha", flaky_first[r].get()},
                              {"beta", flaky_last[r].get()}};
      states.push_back(MakeState(
          DelayedRecipe(
              "amax_history_len: 1",
              "rule { module: \"b\" amax_reduction { group: \"beta\" } }\n"
              "amax_reduction { group: \"alpha\" }"),
          state_options));
      a = ValueOrDie(states[r]->AddModule("a")).input;
      b = ValueOrDie(states[r]->AddModule("b")).input;
    }
    RunRanks(3, [&](int rank) {
      ASSERT_THAT(states[static_cast<size_t>(rank)]->Freeze(), IsOk());
    });
  }
  // Amaxes 1, 2, 3 times 2^step in `a`, 4 times that in `b`.
  std::vector<absl::Status> Step() {
    std::vector<absl::Status> statuses(3);
    RunRanks(3, [&](int rank) {
      RecipeState& state = *states[static_cast<size_t>(rank)];
      const float amax = static_cast<float>((rank + 1) << state.step());
      Observe(state.View(a), FloatBits(amax));
      Observe(state.View(b), FloatBits(4 * amax));
      statuses[static_cast<size_t>(rank)] = state.EndStep(Stream{});
    });
    return statuses;
  }
  void ExpectAllAt(int64_t step) {
    for (const auto& state : states) {
      EXPECT_EQ(state->step(), step);
      const float amax = static_cast<float>(3 << (step - 1));
      EXPECT_THAT(state->Scale(a, Stream{}), IsOkAndHolds(448 / amax));
      EXPECT_THAT(state->Scale(b, Stream{}), IsOkAndHolds(448 / (4 * amax)));
    }
  }

  std::vector<std::unique_ptr<Communicator>> first, last;
  std::vector<std::unique_ptr<FlakyCommunicator>> flaky_first, flaky_last;
  std::vector<std::unique_ptr<RecipeState>> states;
  SlotId a, b;
};

// The others have completed the step: they go back, and it is done again.
TEST(FlakyTest, ARankThatLostTheLastResultIsWaitedFor) {
  for (int64_t step : {1, 2, 3}) {
    TwoGroups job(absl::Seconds(60));
    job.flaky_last[1]->join = true;
    job.flaky_last[1]->fail_call = 1 + step;  // 0 is Freeze's
    for (int64_t i = 0; i < step; ++i) ExpectAllOk(job.Step());
    const std::vector<absl::Status> statuses = job.Step();
    EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kAborted,
                                      HasSubstr("group \"beta\"")));
    for (const size_t rank : {0, 2}) {
      EXPECT_THAT(statuses[rank], IsOk());
      EXPECT_THAT(job.states[rank]->RestorePrevious(Stream{}), IsOk());
    }
    job.ExpectAllAt(step);
    ExpectAllOk(job.Step());
    job.ExpectAllAt(step + 1);
  }
}

// It does not join the second group: nobody completes the step.
TEST(FlakyTest, ARankThatLostTheFirstResultStopsAll) {
  for (int64_t step : {1, 2, 3}) {
    TwoGroups job(absl::Milliseconds(400));
    job.flaky_first[1]->join = true;
    job.flaky_first[1]->fail_call = 1 + step;
    for (int64_t i = 0; i < step; ++i) ExpectAllOk(job.Step());
    const std::vector<absl::Status> statuses = job.Step();
    EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kAborted,
                                      HasSubstr("group \"alpha\"")));
    for (const size_t rank : {0, 2}) {
      EXPECT_THAT(statuses[rank], StatusIs(absl::StatusCode::kDeadlineExceeded,
                                           AllOf(HasSubstr("group \"beta\""),
                                                 HasSubstr("rank 1 of 3"))));
    }
    job.ExpectAllAt(step);
  }
}

}  // namespace
}  // namespace scalekeeper
