// ApplyRecipe, Refreeze and Rebind: what a running job may change.
#include "amax/change_state.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "amax/in_process_communicator.h"
#include "amax/load_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/job_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

std::string Short(const std::string& rest = "") {
  return DelayedRecipe("amax_history_len: 4 first_step: UNIT", rest);
}

ChangeReport Applied(absl::StatusOr<ChangeReport> report) {
  EXPECT_THAT(report.status(), IsOk());
  return report.ok() ? *report : ChangeReport();
}

TEST(ApplyRecipeTest, AMarginCountsFromTheNextUpdateOn) {
  OneModule m = FrozenModule(Short());
  EXPECT_THAT(m.Step(8), IsOk());
  m.Observe(2);
  const ChangeReport report = Applied(ApplyRecipe(
      ParseRecipe(
          DelayedRecipe("amax_history_len: 4 first_step: UNIT margin: 1")),
      ChangeOptions(), Stream{}, m.state.get()));
  EXPECT_TRUE(report.changed);
  EXPECT_THAT(report.carried.recipe_differences,
              ::testing::Contains(HasSubstr("margin: 0 -> 1")));
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.state->step(), 1);
  EXPECT_THAT(m.state->EndStep(Stream{}), IsOk()) << "2 is still observed";
  EXPECT_EQ(m.Scale(), 28);
  EXPECT_THAT(m.Window(), ElementsAre(FloatBits(8), FloatBits(2)));
  EXPECT_EQ(m.state->counters().updates, 2);
}

TEST(ApplyRecipeTest, TheSameRecipeResetsNothing) {  // K3
  OneModule m = FrozenModule(Short());
  EXPECT_THAT(m.Step(8), IsOk());
  const uint32_t* const place = m.state->View(m.slots.input).amax;
  const ChangeReport report =
      Applied(ApplyRecipe(ParseRecipe("# the same\n" + Short()),
                          ChangeOptions(), Stream{}, m.state.get()));
  EXPECT_FALSE(report.changed);
  EXPECT_EQ(m.state->View(m.slots.input).amax, place);
  EXPECT_EQ(m.state->generation(), 0);
  EXPECT_THAT(m.state->RestorePrevious(Stream{}), IsOk()) << "it still can";
}

TEST(ApplyRecipeTest, WhatIsHeldIsUpdatedFirst) {
  OneModule m = FrozenModule(Short("update { staleness: 1 }"));
  EXPECT_THAT(m.Step(8), IsOk());
  EXPECT_EQ(m.Scale(), 1);
  EXPECT_TRUE(Applied(ApplyRecipe(ParseRecipe(Short()), ChangeOptions(),
                                  Stream{}, m.state.get()))
                  .changed);
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.state->step(), 1);
}

TEST(ApplyRecipeTest, AFaultLeavesTheStateAsItWas) {
  OneModule m = FrozenModule(Short());
  EXPECT_THAT(m.Step(8), IsOk());
  const absl::StatusOr<ChangeReport> report = ApplyRecipe(
      ParseRecipe(Short("rule { module: \"fc9\" all { current {} } }")),
      ChangeOptions(), Stream{}, m.state.get());
  EXPECT_THAT(report.status(), StatusIs(kInvalidArgument, HasSubstr("fc9")));
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.state->generation(), 0);
  EXPECT_THAT(m.Step(16), IsOk());
  EXPECT_EQ(m.Scale(), 28);
}

TEST(ApplyRecipeTest, RanksThatApplyDifferentRecipesAllHearOfIt) {
  Job job(2, Short());
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8}));
  // To rank 0 it is no change at all.
  const auto apply = [&](int rank) {
    const std::string margin = rank == 0 ? "" : " margin: 1";
    return ApplyRecipe(ParseRecipe(DelayedRecipe(
                           "amax_history_len: 4 first_step: UNIT" + margin)),
                       ChangeOptions(), Stream{}, &job.state(rank))
        .status();
  };
  for (const absl::Status& status : job.OnAll(apply)) {
    EXPECT_THAT(status,
                StatusIs(kFailedPrecondition,
                         AllOf(HasSubstr("ApplyRecipe"), HasSubstr("margin"))));
  }
  ExpectAllOk(job.Step({16, 1}));
  for (int rank : {0, 1}) EXPECT_EQ(job.Scale(rank), 28);
}

TEST(RefreezeTest, ModulesComeAndGoAndTheRestStays) {
  OneModule m = FrozenModule(Short());
  EXPECT_THAT(m.Step(8), IsOk());
  ModuleChanges changes;
  changes.add.push_back({"m.lora_a"});
  ChangeReport report =
      Applied(Refreeze(changes, ChangeOptions(), Stream{}, m.state.get()));
  EXPECT_THAT(
      report.carried.missing,
      ElementsAre("m.lora_a/grad", "m.lora_a/input", "m.lora_a/weight"));
  EXPECT_THAT(report.carried.extra, IsEmpty());
  const ModuleSlots lora = ValueOrDie(m.state->FindModule("m.lora_a"));
  EXPECT_EQ(m.Scale(), 56);
  Observe(m.state->View(lora.weight), FloatBits(4));
  EXPECT_THAT(m.Step(2), IsOk());
  EXPECT_EQ(ValueOrDie(m.state->Scale(lora.weight, Stream{})), 112);
  EXPECT_THAT(m.Window(), ElementsAre(FloatBits(8), FloatBits(2)));

  changes = ModuleChanges();
  changes.remove.push_back("m");
  report = Applied(Refreeze(changes, ChangeOptions(), Stream{}, m.state.get()));
  EXPECT_THAT(report.carried.extra,
              ElementsAre("m/grad", "m/input", "m/weight"));
  EXPECT_FALSE(m.state->Has(m.slots.input));
  EXPECT_EQ(m.state->View(m.slots.input).amax, nullptr);
  EXPECT_THAT(m.state->Scale(m.slots.input, Stream{}).status(),
              StatusIs(kFailedPrecondition, HasSubstr("m/input")));
  EXPECT_THAT(m.state->FindModule("m").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"m\"")));
  EXPECT_EQ(ValueOrDie(m.state->Scale(lora.weight, Stream{})), 112);

  // It comes back as the slots that it was, without what it had observed.
  changes = ModuleChanges();
  changes.add.push_back({"m"});
  Applied(Refreeze(changes, ChangeOptions(), Stream{}, m.state.get()));
  EXPECT_EQ(ValueOrDie(m.state->FindModule("m")).input, m.slots.input);
  EXPECT_EQ(m.Scale(), 1);
  EXPECT_THAT(m.Step(16), IsOk());
  EXPECT_EQ(m.Scale(), 28);
  EXPECT_EQ(m.state->generation(), 3);
}

TEST(RefreezeTest, ModulesThatAreThereOrAreNotAreNamed) {
  OneModule m = FrozenModule(Short());
  ModuleChanges changes;
  changes.add.push_back({"m"});
  EXPECT_THAT(
      Refreeze(changes, ChangeOptions(), Stream{}, m.state.get()).status(),
      StatusIs(kInvalidArgument, HasSubstr("module \"m\" was added before")));
  changes = ModuleChanges();
  changes.remove.push_back("n");
  EXPECT_THAT(
      Refreeze(changes, ChangeOptions(), Stream{}, m.state.get()).status(),
      StatusIs(kInvalidArgument, HasSubstr("no module \"n\"")));
}

// An expert goes from rank 1 to rank 0 of an expert-parallel pair; each rank's
// experts are in no common group.
TEST(RefreezeTest, ARankThatDoesNotRefreezeTheSameSlotsIsHeardOf) {
  Job job(2, Short());
  ExpectAllOk(job.Freeze());
  const auto refreeze = [&](int rank) {
    ModuleChanges changes;
    if (rank == 1) changes.add.push_back({"late"});
    return Refreeze(changes, ChangeOptions(), Stream{}, &job.state(rank))
        .status();
  };
  for (const absl::Status& status : job.OnAll(refreeze)) {
    EXPECT_THAT(status, StatusIs(kFailedPrecondition, HasSubstr("late/")));
  }
  ExpectAllOk(job.Step({8, 1}));
}

TEST(RebindTest, FewerRanksGoOn) {
  Job job(4, Short());
  ExpectAllOk(job.Freeze());
  ExpectAllOk(job.Step({1, 8, 2, 4}));
  auto pair = CreateInProcessCommunicators(2);
  std::vector<absl::Status> statuses(2);
  RunRanks(2, [&](int rank) {
    const size_t r = static_cast<size_t>(rank);
    statuses[r] = Rebind({{"default", pair[r].get()}}, ChangeOptions(),
                         Stream{}, &job.state(rank))
                      .status();
    if (!statuses[r].ok()) return;
    job.Observe(rank, rank == 0 ? 16.0f : 2.0f);
    statuses[r] = job.state(rank).EndStep(Stream{});
  });
  ExpectAllOk(statuses);
  for (int rank : {0, 1}) EXPECT_EQ(job.Scale(rank), 28);
  EXPECT_THAT(Rebind({}, ChangeOptions(), Stream{}, &job.state(0)).status(),
              IsOk())
      << "and alone";
  EXPECT_THAT(
      Rebind({{"default", nullptr}}, ChangeOptions(), Stream{}, &job.state(0))
          .status(),
      StatusIs(kInvalidArgument, HasSubstr("\"default\"")));
}

TEST(RebindTest, RanksAtDifferentStepsAllHearOfIt) {
  Job job(2, Short("amax_reduction { enabled: false }"));
  ExpectAllOk(job.Freeze());
  EXPECT_THAT(job.state(1).EndStep(Stream{}), IsOk());
  auto pair = CreateInProcessCommunicators(2);
  const auto rebind = [&](int rank) {
    return Rebind({{"default", pair[static_cast<size_t>(rank)].get()}},
                  ChangeOptions(), Stream{}, &job.state(rank))
        .status();
  };
  for (const absl::Status& status : job.OnAll(rebind)) {
    EXPECT_THAT(status,
                StatusIs(kFailedPrecondition, HasSubstr("steps 0 to 1")));
  }
}

TEST(ChangeStateTest, NeedsAFrozenStateBetweenSteps) {
  OneModule m(Short());
  EXPECT_THAT(ApplyRecipe(ParseRecipe(Short()), ChangeOptions(), Stream{},
                          m.state.get())
                  .status(),
              StatusIs(kFailedPrecondition, HasSubstr("before Freeze")));
  EXPECT_THAT(m.Freeze(), IsOk());
  EXPECT_THAT(m.state->Pack(Stream{}), IsOk());
  EXPECT_THAT(
      Refreeze({}, ChangeOptions(), Stream{}, m.state.get()).status(),
      StatusIs(kFailedPrecondition, HasSubstr("between Pack and Update")));
}

// What waits for an update goes through a checkpoint.
TEST(HeldStateTest, GoesOnBitForBit) {
  for (const char* update :
       {"update { staleness: 1 }", "update { interval: 3 }",
        "update { interval: 2 staleness: 1 }"}) {
    for (int steps = 1; steps < 6; ++steps) {
      OneModule whole = FrozenModule(Short(update));
      OneModule first = FrozenModule(Short(update));
      OneModule second = FrozenModule(Short(update));
      const auto step = [](OneModule& m, int i) {
        m.Observe(static_cast<float>(1 + i * 5 % 7));
        const uint32_t skip = i == 2 ? 1 : 0;
        EXPECT_THAT(m.state->EndStep(Stream{}, &skip), IsOk());
      };
      for (int i = 0; i < steps; ++i) step(first, i);
      const StateImage image = ValueOrDie(SaveState(*first.state, Stream{}));
      EXPECT_THAT(LoadState(image, LoadOptions(), Stream{}, second.state.get())
                      .status(),
                  IsOk());
      for (int i = 0; i < 12; ++i) {
        step(whole, i);
        if (i >= steps) {
          step(second, i);
          EXPECT_EQ(second.Scale(), whole.Scale()) << update << steps << i;
        }
      }
      EXPECT_EQ(second.Window(), whole.Window());
    }
  }
}

TEST(HeldStateTest, IsObservedWhereTheRecipeHoldsNothing) {
  OneModule held = FrozenModule(Short("update { staleness: 1 }"));
  EXPECT_THAT(held.Step(8), IsOk());
  held.Observe(2);
  const StateImage image = ValueOrDie(SaveState(*held.state, Stream{}));
  OneModule m = FrozenModule(Short());
  EXPECT_THAT(LoadState(image, LoadOptions(), Stream{}, m.state.get()).status(),
              IsOk());
  EXPECT_THAT(m.state->EndStep(Stream{}), IsOk());
  EXPECT_THAT(m.Window(), ElementsAre(FloatBits(8)));
}

}  // namespace
}  // namespace scalekeeper
