// The recipe's update { interval, staleness }: when amaxes become scales.
//
// Truth is a state that updates at every step, fed with what the definition
// says: with interval k the maximum of k steps, with staleness the amaxes of
// one update earlier.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/slot_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/job_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::string RecipeOf(int interval, int staleness,
                     const std::string& rest = "") {
  return DelayedRecipe("amax_history_len: 4 first_step: UNIT",
                       absl::StrCat("update { interval: ", interval,
                                    " staleness: ", staleness, " } ", rest));
}

TEST(UpdatePolicyTest, AnIntervalTakesTheMaximumOfItsSteps) {
  OneModule m = FrozenModule(RecipeOf(3, 0));
  std::vector<float> scales;
  for (float amax : {1.0f, 8.0f, 2.0f, 4.0f, 1.0f, 2.0f}) {
    EXPECT_EQ(m.state->UpdateIsDue(), m.state->step() % 3 == 2);
    EXPECT_THAT(m.Step(amax), IsOk());
    scales.push_back(m.Scale());
  }
  EXPECT_THAT(scales, ElementsAre(1, 1, 56, 56, 56, 56));
  EXPECT_THAT(m.Window(), ElementsAre(FloatBits(8), FloatBits(4)));
  EXPECT_EQ(m.state->step(), 6);
  EXPECT_EQ(m.state->counters().updates, 2);
}

TEST(UpdatePolicyTest, StaleScalesComeOneEndStepLater) {
  OneModule m = FrozenModule(RecipeOf(1, 1));
  std::vector<float> scales;
  for (float amax : {8.0f, 1.0f, 2.0f, 16.0f, 1.0f}) {
    EXPECT_THAT(m.Step(amax), IsOk());
    scales.push_back(m.Scale());
  }
  EXPECT_THAT(scales, ElementsAre(1, 56, 56, 56, 28));
  EXPECT_EQ(m.state->step(), 5);
}

TEST(UpdatePolicyTest, AStaleIntervalChangesScalesAtTheEndStepAfterIt) {
  OneModule m = FrozenModule(RecipeOf(2, 1));
  std::vector<float> scales;
  for (float amax : {8.0f, 1.0f, 2.0f, 16.0f, 1.0f}) {
    EXPECT_THAT(m.Step(amax), IsOk());
    scales.push_back(m.Scale());
  }
  // Steps 0 and 1 are reduced from the end of step 1 on.
  EXPECT_THAT(scales, ElementsAre(1, 1, 56, 56, 28));
}

// A step as a program has it.
struct Step {
  std::vector<float> amaxes;  // by rank
  bool skip = false;          // rank 1 wants it
};

std::vector<Step> RandomSteps(int count) {
  std::mt19937 random(7);
  std::vector<Step> steps(static_cast<size_t>(count));
  for (Step& step : steps) {
    for (int rank = 0; rank < 2; ++rank) {
      const uint32_t kind = random() % 16;
      step.amaxes.push_back(kind == 0 ? kInf
                            : kind == 1
                                ? 0.0f
                                : static_cast<float>(random() % 4096) / 64.0f);
    }
    step.skip = random() % 8 == 0;
  }
  return steps;
}

absl::Status EndStep(RecipeState& state, bool skip) {
  const uint32_t flag = skip ? 1 : 0;
  return state.EndStep(Stream{}, &flag);
}

class EveryUpdatePolicyTest
    : public ::testing::TestWithParam<std::tuple<int, int>> {};

// A fresh job that updates at every step, over the maxima of intervals.
TEST_P(EveryUpdatePolicyTest, GivesTheScalesOfItsDefinition) {
  const auto [interval, staleness] = GetParam();
  const std::vector<Step> steps = RandomSteps(240);
  Job job(2, RecipeOf(interval, staleness));
  ExpectAllOk(job.Freeze());
  Job truth(2, RecipeOf(1, 0));
  ExpectAllOk(truth.Freeze());
  std::vector<float> after_update = {1};  // scales that truth had
  Step sum = {{0, 0}};
  for (size_t i = 0; i < steps.size(); ++i) {
    ExpectAllOk(job.OnAll([&](int rank) {
      const float amax = steps[i].amaxes[static_cast<size_t>(rank)];
      if (amax != 0) job.Observe(rank, amax);
      return EndStep(job.state(rank), steps[i].skip && rank == 1);
    }));
    for (size_t r = 0; r < 2; ++r) {
      sum.amaxes[r] = std::max(sum.amaxes[r], steps[i].amaxes[r]);
    }
    sum.skip = sum.skip || steps[i].skip;
    if ((i + 1) % static_cast<size_t>(interval) == 0) {
      ExpectAllOk(truth.OnAll([&](int rank) {
        const float amax = sum.amaxes[static_cast<size_t>(rank)];
        if (amax != 0) truth.Observe(rank, amax);
        return EndStep(truth.state(rank), sum.skip && rank == 1);
      }));
      after_update.push_back(truth.Scale(0));
      sum = {{0, 0}};
    }
    // Updates whose scales are in force after step i.
    const size_t ended = i + 1 - static_cast<size_t>(staleness);
    const size_t in_force = ended / static_cast<size_t>(interval);
    for (int rank : {0, 1}) {
      ASSERT_EQ(job.Scale(rank), after_update[in_force]) << i;
      ASSERT_EQ(job.state(rank).step(), static_cast<int64_t>(i) + 1);
    }
  }
  EXPECT_EQ(job.state(0).counters().updates, (240 - staleness) / interval);
  EXPECT_EQ(job.state(0).counters().collectives,
            job.state(0).counters().updates);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryUpdatePolicyTest,
                         ::testing::Combine(::testing::Values(1, 2, 5),
                                            ::testing::Values(0, 1)));

class UpdateRetryTest : public ::testing::TestWithParam<int> {};

TEST_P(UpdateRetryTest, AFailedReductionCanBeTriedAgain) {
  Job job(2, RecipeOf(2, GetParam()));
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  if (GetParam() == 1) ExpectAllOk(job.Step({2, 2}));
  const int64_t before = job.state(0).step();
  for (int rank : {0, 1}) {
    job.flaky(rank).fail_call = job.flaky(rank).calls();
  }
  for (const absl::Status& status : job.Step({4, 2})) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kAborted, HasSubstr("EndStep")));
  }
  for (int rank : {0, 1}) {
    EXPECT_EQ(job.state(rank).step(), before);
    EXPECT_EQ(job.Scale(rank), 1);
  }
  ExpectAllOk(job.Step({0, 0}));
  for (int rank : {0, 1}) EXPECT_EQ(job.Scale(rank), 56);
}

INSTANTIATE_TEST_SUITE_P(Staleness, UpdateRetryTest, ::testing::Values(0, 1));

TEST(UpdatePolicyTest, SetStepFoldsWhatIsHeld) {
  OneModule m = FrozenModule(RecipeOf(1, 1));
  EXPECT_THAT(m.Step(8), IsOk());
  EXPECT_EQ(m.Scale(), 1);
  EXPECT_THAT(m.state->SetStep(1), IsOk()) << "nothing changes";
  EXPECT_EQ(m.Scale(), 1);
  EXPECT_THAT(m.state->SetStep(100), IsOk());
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.state->step(), 100);
  EXPECT_THAT(m.Step(16), IsOk());
  EXPECT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Scale(), 28);
}

TEST(UpdatePolicyTest, PhasesChangeBetweenUpdates) {
  for (int staleness : {0, 1}) {
    OneModule m = FrozenModule(
        RecipeOf(2, staleness,
                 "phase { from_step: 0 } phase { from_step: 3 input "
                 "{ format: E5M2 delayed "
                 "{ amax_history_len: 4 first_step: UNIT } } }"));
    EXPECT_THAT(m.Step(1), IsOk());
    EXPECT_THAT(m.Step(8), IsOk());
    EXPECT_THAT(m.Step(2), IsOk());  // now phase 1 is in force
    EXPECT_EQ(m.Scale(), 57344.0f / 8);
    EXPECT_THAT(m.Step(16), IsOk());
    EXPECT_THAT(m.Step(1), IsOk());
    EXPECT_EQ(m.Scale(), 57344.0f / 16) << staleness;
  }
}

TEST(UpdatePolicyTest, RestorePreviousGoesBackToTheLastUpdate) {
  OneModule m = FrozenModule(RecipeOf(2, 0));
  for (float amax : {8.0f, 1.0f, 16.0f, 1.0f, 32.0f}) {
    EXPECT_THAT(m.Step(amax), IsOk());
  }
  EXPECT_EQ(m.Scale(), 28);
  EXPECT_THAT(m.state->RestorePrevious(Stream{}), IsOk());
  EXPECT_EQ(m.state->step(), 3) << "before the EndStep that updated";
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_THAT(m.Step(2), IsOk());
  EXPECT_THAT(m.Window(), ElementsAre(FloatBits(8), FloatBits(2)))
      << "32 was observed since, and is dropped";

  OneModule stale = FrozenModule(RecipeOf(1, 1));
  for (float amax : {8.0f, 16.0f, 32.0f}) {
    EXPECT_THAT(stale.Step(amax), IsOk());
  }
  EXPECT_EQ(stale.Scale(), 28);
  EXPECT_THAT(stale.state->RestorePrevious(Stream{}), IsOk());
  EXPECT_EQ(stale.state->step(), 2);
  EXPECT_EQ(stale.Scale(), 56);
  EXPECT_THAT(stale.Step(4), IsOk());
  EXPECT_EQ(stale.Scale(), 56) << "what was on its way is dropped";
}

TEST(UpdatePolicyTest, PartsOfAStepNeedAnUpdateThatIsDue) {
  OneModule m = FrozenModule(RecipeOf(2, 0));
  EXPECT_THAT(
      m.state->Pack(Stream{}),
      StatusIs(kFailedPrecondition, HasSubstr("step 0 updates nothing under "
                                              "update.interval: 2")));
  EXPECT_THAT(m.Step(8), IsOk());
  EXPECT_THAT(m.state->Pack(Stream{}), IsOk());
  EXPECT_THAT(m.state->Update(Stream{}), IsOk());
  EXPECT_EQ(m.Scale(), 56);
  OneModule stale = FrozenModule(RecipeOf(1, 1));
  EXPECT_THAT(stale.state->Pack(Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("update.staleness: 1")));
}

TEST(UpdatePolicyTest, CalibrationIsCommittedAtOnce) {
  for (int staleness : {0, 1}) {
    OneModule m = FrozenModule(RecipeOf(4, staleness));
    m.Observe(8);
    EXPECT_THAT(m.state->CommitCalibration(Stream{}), IsOk());
    EXPECT_EQ(m.Scale(), 56);
    EXPECT_EQ(m.state->step(), 1);
  }
}

}  // namespace
}  // namespace scalekeeper
