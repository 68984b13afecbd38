// Scales of one moment, and work that is undone.
#include <string>
#include <utility>

#include "amax/checkpoint.h"
#include "amax/load_state.h"
#include "amax/scale_snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

std::string Bytes(const RecipeState& state) {
  return ValueOrDie(EncodeState(ValueOrDie(SaveState(state, Stream{}))));
}

TEST(ScaleSnapshotTest, HoldsTheScaleThatWas) {  // L3, L5
  OneModule m = FrozenModule(DelayedRecipe(""));
  ASSERT_THAT(m.Step(1), IsOk());
  ScaleSnapshot before = ValueOrDie(ScaleSnapshot::Take(*m.state, Stream{}));
  ASSERT_THAT(m.Step(3), IsOk());
  const SlotView live = m.state->View(m.slots.input);
  const SlotView kept = before.View(m.slots.input);
  EXPECT_EQ(*live.scale, 149.33333f);
  EXPECT_EQ(*kept.scale, 448);
  EXPECT_EQ(*kept.scale_inv, 1.0f / 448);
  EXPECT_EQ(*kept.measure, 0u);
  EXPECT_EQ(before.step(), 1);
  // Moved, it is the same memory.
  const ScaleSnapshot moved = std::move(before);
  EXPECT_EQ(moved.View(m.slots.input).scale, kept.scale);
}

TEST(ScaleSnapshotTest, WhatIsDoneAgainIsNotObservedAgain) {  // L3
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 8"));
  const ScaleSnapshot first =
      ValueOrDie(ScaleSnapshot::Take(*m.state, Stream{}));
  EXPECT_EQ(*first.View(m.slots.input).measure, 1u) << "works on step 1";
  ASSERT_THAT(m.Step(3), IsOk());
  const std::string before = Bytes(*m.state);
  Observe(first.View(m.slots.input), FloatBits(100));
  EXPECT_EQ(Bytes(*m.state), before);
  ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
  EXPECT_EQ(m.Window(), AsBits({3})) << "one roll in total";
}

TEST(ScaleSnapshotTest, WithinAStepNoneIsNeeded) {  // L3
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 8"));
  ASSERT_THAT(m.Step(1), IsOk());
  for (int forward = 0; forward < 2; ++forward) {
    EXPECT_EQ(m.Scale(), 448);
    m.Observe(3);
  }
  ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
  EXPECT_EQ(m.Window(), AsBits({1, 3}));
}

TEST(ScaleSnapshotTest, RetakingKeepsTheAddresses) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  ASSERT_THAT(m.Step(1), IsOk());
  ScaleSnapshot snapshot = ValueOrDie(ScaleSnapshot::Take(*m.state, Stream{}));
  const SlotView view = snapshot.View(m.slots.input);
  ASSERT_THAT(m.Step(3), IsOk());
  ASSERT_THAT(snapshot.Retake(*m.state, Stream{}), IsOk());
  EXPECT_EQ(snapshot.View(m.slots.input).scale, view.scale);
  EXPECT_EQ(*view.scale, 149.33333f);
  OneModule other = FrozenModule(DelayedRecipe(""));
  EXPECT_THAT(
      snapshot.Retake(*other.state, Stream{}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another state")));
}

TEST(ScaleSnapshotTest, SlotsWithoutAScale) {
  OneModule m = FrozenModule(
      "defaults { all { high_precision { } } input { current { } } }");
  const ScaleSnapshot snapshot =
      ValueOrDie(ScaleSnapshot::Take(*m.state, Stream{}));
  EXPECT_NE(snapshot.View(m.slots.input).amax, nullptr);
  EXPECT_EQ(snapshot.View(m.slots.input).scale, nullptr);
  EXPECT_EQ(snapshot.View(m.slots.weight).amax, nullptr);
  EXPECT_EQ(snapshot.View(SlotId{99}).amax, nullptr);
  EXPECT_EQ(ScaleSnapshot().View(m.slots.input).amax, nullptr);
  OneModule early(DelayedRecipe(""));
  EXPECT_THAT(ScaleSnapshot::Take(*early.state, Stream{}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("ScaleSnapshot::Take before Freeze")));
}

TEST(ObservationsTest, WarmUpRunsAreUndone) {
  OneModule m = FrozenModule(
      DelayedRecipe("amax_history_len: 4",
                    "phase { from_step: 3 all { delayed { margin: 1 } } }"));
  ASSERT_THAT(m.Step(8), IsOk());
  m.Observe(2);
  const std::string before = Bytes(*m.state);
  const SlotView view = m.state->View(m.slots.input);
  const StateImage snapshot =
      ValueOrDie(SnapshotObservations(*m.state, Stream{}));
  for (float amax : {100.0f, 0.25f, 7.0f}) ASSERT_THAT(m.Step(amax), IsOk());
  EXPECT_EQ(m.state->active_phase(), 1);
  ASSERT_THAT(Restore(snapshot, Stream{}, m.state.get()), IsOk());
  EXPECT_EQ(Bytes(*m.state), before);
  EXPECT_EQ(m.state->active_phase(), 0);
  EXPECT_EQ(m.state->View(m.slots.input).scale, view.scale);
  EXPECT_EQ(*view.amax, FloatBits(2));
  OneModule other = FrozenModule(DelayedRecipe("amax_history_len: 5"));
  EXPECT_THAT(Restore(snapshot, Stream{}, other.state.get()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the recipes differ")));
}

}  // namespace
}  // namespace scalekeeper
