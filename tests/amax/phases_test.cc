// Changes of phase: what takes effect when, what is kept, what can be undone.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Phase(int from_step, const std::string& delayed,
                  const std::string& format = "E4M3") {
  return "phase { from_step: " + std::to_string(from_step) +
         " all { format: " + format + " delayed { " + delayed + " } } }\n";
}

TEST(PhasesTest, FieldsTakeEffectAtTheNextUpdate) {  // K2
  OneModule m =
      FrozenModule(DelayedRecipe("margin: 0 amax_history_len: 4",
                                 Phase(1, "margin: 1 amax_history_len: 4") +
                                     Phase(3,
                                           "margin: 1 amax_history_len: 4 "
                                           "amax_compute_algo: MOST_RECENT")));
  ASSERT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Scale(), 448);
  ASSERT_THAT(m.state->SetStep(1), IsOk());
  EXPECT_EQ(m.state->active_phase(), 1);
  EXPECT_EQ(m.Scale(), 448) << "until the next update";
  ASSERT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Scale(), 224);
  ASSERT_THAT(m.state->SetStep(2), IsOk());
  ASSERT_THAT(m.Step(8), IsOk());
  EXPECT_EQ(m.Scale(), 28);
  ASSERT_THAT(m.state->SetStep(3), IsOk());
  ASSERT_THAT(m.Step(2), IsOk());
  EXPECT_EQ(m.Scale(), 112) << "most recent; MAX would give 28";
  EXPECT_EQ(m.Window(), AsBits({1, 1, 8, 2}));
}

TEST(PhasesTest, GoingBackToMaxSeesWhatMostRecentPushed) {
  OneModule m = FrozenModule(
      DelayedRecipe("amax_history_len: 4 amax_compute_algo: MOST_RECENT",
                    Phase(6, "amax_compute_algo: MAX")));
  for (float amax : {1.0f, 2.0f, 3.0f, 9.0f, 4.0f, 5.0f}) {
    ASSERT_THAT(m.Step(amax), IsOk());
  }
  EXPECT_EQ(m.state->active_phase(), 1) << "EndStep moves on by itself";
  ASSERT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Scale(), 448.0f / 9);
}

TEST(PhasesTest, TheSamePhaseIsLeftAlone) {
  OneModule m = FrozenModule(DelayedRecipe("", Phase(100, "margin: 1")));
  ASSERT_THAT(m.Step(8), IsOk());
  for (int64_t step : {5, 99, 0, 1}) {
    ASSERT_THAT(m.state->SetStep(step), IsOk());
    EXPECT_EQ(m.state->step(), step);
    EXPECT_EQ(m.Scale(), 56);
    EXPECT_EQ(m.Window(), AsBits({8}));
  }
}

TEST(PhasesTest, AnotherLengthKeepsTheNewest) {
  OneModule m = FrozenModule(DelayedRecipe(
      "amax_history_len: 5",
      Phase(6, "amax_history_len: 2") + Phase(7, "amax_history_len: 7")));
  for (float amax : {1.0f, 9.0f, 2.0f, 3.0f, 4.0f, 5.0f}) {
    ASSERT_THAT(m.Step(amax), IsOk());
  }
  EXPECT_EQ(m.Scale(), 448.0f / 9) << "the scale is kept at the switch";
  EXPECT_EQ(m.Window(), AsBits({4, 5}));
  ASSERT_THAT(m.Step(2), IsOk());
  EXPECT_EQ(m.Scale(), 448.0f / 5);
  EXPECT_EQ(m.Window(), AsBits({5, 2}));
  for (float amax : {1.0f, 1.0f, 1.0f, 1.0f, 1.0f}) {
    ASSERT_THAT(m.Step(amax), IsOk());
  }
  EXPECT_EQ(m.Window(), AsBits({5, 2, 1, 1, 1, 1, 1}));
  ASSERT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Scale(), 224);
}

TEST(PhasesTest, AnotherFormatRemakesTheScaleFromTheWindow) {
  OneModule m = FrozenModule(
      "defaults { all { format: E4M3 delayed { } } grad { format: E4M3 delayed "
      "{ } } }\n" +
      std::string("phase { from_step: 1 grad { format: E5M2 delayed { margin: "
                  "1 } } }"));
  const SlotView grad = m.state->View(m.slots.grad);
  Observe(grad, FloatBits(2));
  ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
  EXPECT_EQ(*grad.scale, 14336) << "57344 / 2 / 2^1, before any update of it";
  EXPECT_EQ(*grad.scale_inv, 1.0f / 14336);
  EXPECT_EQ(*m.state->View(m.slots.input).scale, 1);
}

TEST(PhasesTest, AnotherFormatWithoutAWindowIsMeasured) {
  OneModule m = FrozenModule(
      DelayedRecipe("first_step: UNIT",
                    "phase { from_step: 2 grad { format: E5M2 delayed { "
                    "first_step: MEASURE } } }"));
  const SlotView grad = m.state->View(m.slots.grad);
  EXPECT_EQ(*grad.measure, 0u);
  ASSERT_THAT(m.state->SetStep(2), IsOk());
  EXPECT_EQ(*grad.measure, 1u);
  EXPECT_EQ(*m.state->View(m.slots.input).measure, 0u);
  ASSERT_THAT(m.state->SetStep(0), IsOk());
  EXPECT_EQ(*grad.measure, 0u) << "two switches, no step: as if none";
}

TEST(PhasesTest, AWarmUpInHighPrecisionStartsMeasuring) {
  OneModule m = FrozenModule(
      DelayedRecipe("",
                    "phase { from_step: 0 all { high_precision { } } } phase { "
                    "from_step: 2 }"));
  EXPECT_EQ(m.state->policy(m.slots.input).scaling, Scaling::kHighPrecision);
  ASSERT_THAT(m.Step(8), IsOk());
  ASSERT_THAT(m.Step(8), IsOk());
  EXPECT_EQ(m.state->policy(m.slots.input).scaling, Scaling::kDelayed);
  EXPECT_EQ(m.Scale(), 1) << "nothing was observed in high precision";
  EXPECT_THAT(m.Window(), IsEmpty());
  EXPECT_EQ(*m.state->View(m.slots.input).measure, 1u);
  ASSERT_THAT(m.Step(16), IsOk());
  EXPECT_EQ(m.Scale(), 28);
}

TEST(PhasesTest, APauseKeepsWindowAndScale) {  // K3
  OneModule m = FrozenModule(DelayedRecipe(
      "",
      "phase { from_step: 1 all { format: E4M3 current { } } } phase { "
      "from_step: 3 }"));
  ASSERT_THAT(m.Step(8), IsOk());
  ASSERT_THAT(m.Step(1000), IsOk());
  ASSERT_THAT(m.Step(1000), IsOk());
  EXPECT_EQ(m.state->active_phase(), 2);
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.Window(), AsBits({8}));
  EXPECT_EQ(*m.state->View(m.slots.input).measure, 0u);
}

TEST(PhasesTest, RestorePreviousGoesBackAcrossASwitch) {
  OneModule m = FrozenModule(
      DelayedRecipe("amax_history_len: 3",
                    Phase(4, "amax_history_len: 1 margin: 2", "E4M3")));
  for (float amax : {9.0f, 1.0f, 2.0f}) ASSERT_THAT(m.Step(amax), IsOk());
  const std::vector<uint32_t> window = m.Window();
  ASSERT_THAT(m.Step(3), IsOk());  // ends step 3: phase 1 comes into force
  EXPECT_EQ(m.state->active_phase(), 1);
  EXPECT_EQ(m.Window(), AsBits({3}));
  ASSERT_THAT(m.state->RestorePrevious(Stream{}), IsOk());
  EXPECT_EQ(m.state->active_phase(), 0);
  EXPECT_EQ(m.state->step(), 3);
  EXPECT_EQ(m.Window(), window);
  EXPECT_EQ(m.Scale(), 448.0f / 9);
  ASSERT_THAT(m.Step(5), IsOk());
  EXPECT_EQ(m.Window(), AsBits({5}));
  ASSERT_THAT(m.Step(7), IsOk());
  EXPECT_EQ(m.Scale(), 16);
  ASSERT_THAT(m.state->RestorePrevious(Stream{}), IsOk());
  EXPECT_EQ(m.state->active_phase(), 1) << "one step, not the switch before it";
  EXPECT_EQ(m.Window(), AsBits({5}));
}

TEST(PhasesTest, SwitchesWithoutAStepBetweenHaveTheEffectOfTheLast) {
  OneModule m = FrozenModule(DelayedRecipe(
      "amax_history_len: 4",
      Phase(10, "amax_history_len: 1") + Phase(20, "amax_history_len: 3")));
  for (float amax : {1.0f, 2.0f, 3.0f, 4.0f}) {
    ASSERT_THAT(m.Step(amax), IsOk());
  }
  for (int64_t step : {10, 20, 0, 10, 4}) {
    ASSERT_THAT(m.state->SetStep(step), IsOk());
  }
  EXPECT_EQ(m.Window(), AsBits({1, 2, 3, 4}));
  for (int64_t step : {10, 20}) ASSERT_THAT(m.state->SetStep(step), IsOk());
  EXPECT_EQ(m.Window(), AsBits({2, 3, 4}));
}

TEST(PhasesTest, SetStepBeforeFreezeChoosesTheFirstPhase) {
  OneModule m(DelayedRecipe("", Phase(5, "margin: 1")));
  ASSERT_THAT(m.state->SetStep(7), IsOk());
  ASSERT_THAT(m.Freeze(), IsOk());
  EXPECT_EQ(m.state->active_phase(), 1);
  ASSERT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Scale(), 224);
  EXPECT_EQ(m.state->step(), 8);
}

TEST(PhasesTest, AnotherGroupMovesTheSlotToItsMessage) {  // K2, group
  OneModule m = FrozenModule(DelayedRecipe(
      "",
      "amax_reduction { group: \"a\" }\n"
      "phase { from_step: 1 amax_reduction { group: \"b\" } }\n"
      "phase { from_step: 2 amax_reduction { enabled: false } }"));
  EXPECT_THAT(m.state->groups(), ElementsAre("a", "b"));
  const uint32_t* address = m.state->View(m.slots.input).amax;
  EXPECT_EQ(ValueOrDie(m.state->AmaxMessage("a")).count, 3u + 5u);
  EXPECT_EQ(ValueOrDie(m.state->AmaxMessage("b")).count, 0u);
  ASSERT_THAT(m.Step(8), IsOk());
  EXPECT_EQ(ValueOrDie(m.state->AmaxMessage("a")).count, 0u);
  EXPECT_EQ(ValueOrDie(m.state->AmaxMessage("b")).count, 3u + 5u);
  m.Observe(16);
  ASSERT_THAT(m.state->Pack(Stream{}), IsOk());
  const AmaxMessageView b = ValueOrDie(m.state->AmaxMessage("b"));
  EXPECT_EQ(b.data[0], FloatBits(16));
  b.data[0] = FloatBits(32);  // what another rank of "b" saw
  ASSERT_THAT(m.state->Update(Stream{}), IsOk());
  EXPECT_EQ(m.Scale(), 14);
  ASSERT_THAT(m.Step(64), IsOk());
  EXPECT_EQ(m.Scale(), 7);
  EXPECT_EQ(m.state->View(m.slots.input).amax, address);
}

}  // namespace
}  // namespace scalekeeper
