// States that go on where another one stopped: under the same recipe, under
// another one, with other modules.
#include "amax/load_state.h"

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

StateImage Save(const RecipeState& state) {
  return ValueOrDie(SaveState(state, Stream{}));
}

std::string Bytes(const RecipeState& state) {
  return ValueOrDie(EncodeState(Save(state)));
}

// Through bytes, as a checkpoint goes.
absl::StatusOr<LoadReport> Load(const StateImage& image, RecipeState* state,
                                const LoadOptions& options = {}) {
  const StateImage read =
      ValueOrDie(DecodeState(ValueOrDie(EncodeState(image))));
  return LoadState(read, options, Stream{}, state);
}

std::unique_ptr<RecipeState> Frozen(const std::string& recipe,
                                    const std::vector<std::string>& modules) {
  auto state = MakeState(recipe);
  for (const std::string& module : modules) {
    EXPECT_THAT(state->AddModule(module), IsOk());
  }
  EXPECT_THAT(state->Freeze(), IsOk());
  return state;
}

// A state of one module that has seen `amaxes`, loaded into a new one of
// another recipe.
OneModule LoadedInto(const std::string& before,
                     const std::vector<float>& amaxes, const std::string& after,
                     LoadReport* report = nullptr) {
  OneModule first = FrozenModule(before);
  for (float amax : amaxes) EXPECT_THAT(first.Step(amax), IsOk());
  OneModule second = FrozenModule(after);
  auto loaded = Load(Save(*first.state), second.state.get());
  EXPECT_THAT(loaded, IsOk());
  if (loaded.ok() && report != nullptr) *report = *loaded;
  return second;
}

// ------------------------------------------------------------- the same recipe

// Every option, three lengths, phases that change each of them, a group of its
// own, slots that are only watched, seeds.
constexpr char kRichRecipe[] = R"(
  defaults {
    input { format: E4M3 delayed { amax_history_len: 7 margin: 1 } }
    weight { format: E4M3 delayed { amax_history_len: 1
                                    non_finite_amax: BACK_OFF } }
    grad { format: E5M2 delayed { amax_history_len: 5
                                  amax_compute_algo: MOST_RECENT
                                  non_finite_amax: FREEZE } }
  }
  rule { module: "c\\..*" all { mxfp8 { } } }
  rule { module: "d\\..*" amax_reduction { enabled: false } }
  phase { from_step: 4 input { delayed { amax_history_len: 3 margin: 1 } } }
  phase { from_step: 7 grad { high_precision { } } }
  phase { from_step: 9 }
)";
const std::vector<std::string> kRichModules = {"a.2", "a.10", "c.0", "d.0"};

void RichStep(int step, RecipeState* state) {
  std::mt19937 random(static_cast<unsigned>(step));
  for (int32_t slot = 0; slot < static_cast<int32_t>(state->slot_count());
       ++slot) {
    const SlotView view = state->View({slot});
    const auto kind = random() % 16;
    const auto bits = static_cast<uint32_t>(random() % 0x7F800000u);
    if (view.amax == nullptr || kind == 0) continue;
    Observe(view, kind == 1 ? 0x7F800000u : bits);
  }
  const uint32_t skip = random() % 8 == 0;
  ASSERT_THAT(state->EndStep(Stream{}, &skip), IsOk());
}

class GoingOnTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoingOnTest, IsTheSameAsNotStopping) {  // J9
  const std::string recipe = absl::StrCat(kRichRecipe, GetParam());
  for (int stop = 0; stop <= 12; ++stop) {
    auto whole = Frozen(recipe, kRichModules);
    auto first = Frozen(recipe, kRichModules);
    for (int step = 0; step < stop; ++step) {
      RichStep(step, whole.get());
      RichStep(step, first.get());
    }
    for (RecipeState* state : {whole.get(), first.get()}) {
      Observe(state->View({0}), FloatBits(1234));  // is pending
    }
    auto second = Frozen(recipe, kRichModules);
    const LoadReport report = ValueOrDie(Load(Save(*first), second.get()));
    EXPECT_TRUE(report.same_recipe);
    EXPECT_EQ(report.ToString(), "");
    EXPECT_EQ(Bytes(*second), Bytes(*first));
    for (int step = stop; step < 16; ++step) {
      RichStep(step, whole.get());
      RichStep(step, second.get());
      ASSERT_EQ(Bytes(*second), Bytes(*whole))
          << "stopped before " << stop << ", differs after " << step;
      EXPECT_EQ(second->active_phase(), whole->active_phase());
    }
    EXPECT_EQ(ValueOrDie(second->NonFiniteSlots(Stream{})),
              ValueOrDie(whole->NonFiniteSlots(Stream{})));
  }
}

INSTANTIATE_TEST_SUITE_P(Updates, GoingOnTest,
                         ::testing::Values("", "update { interval: 3 }",
                                           "update { staleness: 1 }",
                                           "update { interval: 2 staleness: 1 "
                                           "}"));

TEST(LoadStateTest, WhatWaitsIsObservedWhereNothingMayWait) {
  LoadReport report;
  OneModule m = LoadedInto(DelayedRecipe("", "update { staleness: 1 }"), {8, 4},
                           DelayedRecipe(""), &report);
  EXPECT_EQ(m.Scale(), 56) << "4 waits";
  EXPECT_EQ(*m.state->View(m.slots.input).amax, FloatBits(4));
  ASSERT_THAT(m.Step(2), IsOk());
  EXPECT_EQ(m.Window(), AsBits({8, 4}));
}

TEST(ResetObservationsTest, WhatWaitsIsDroppedToo) {
  OneModule m = FrozenModule(DelayedRecipe("", "update { staleness: 1 }"));
  for (float amax : {8.0f, 4.0f}) ASSERT_THAT(m.Step(amax), IsOk());
  ASSERT_THAT(ResetObservations({"m"}, Stream{}, m.state.get()), IsOk());
  ASSERT_THAT(m.Step(2), IsOk());
  EXPECT_THAT(m.Window(), IsEmpty());
  ASSERT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Window(), AsBits({2}));
}

TEST(LoadStateTest, PhasesThatWereVisitedAreRemembered) {
  // In phase 1, which rests with what phase 2 left.
  const std::string recipe =
      "defaults { all { format: E4M3 delayed { amax_history_len: 2 } } }"
      "phase { from_step: 10 all { high_precision { } } }"
      "phase { from_step: 20 all { format: E4M3 delayed { } } input { format: "
      "E5M2 delayed { amax_history_len: 6 margin: 3 } } }";
  OneModule whole = FrozenModule(recipe);
  ASSERT_THAT(whole.state->SetStep(20), IsOk());
  for (float amax : {1.0f, 2.0f, 3.0f, 4.0f}) {
    ASSERT_THAT(whole.Step(amax), IsOk());
  }
  ASSERT_THAT(whole.state->SetStep(10), IsOk());
  OneModule other = FrozenModule(recipe);
  ASSERT_THAT(Load(Save(*whole.state), other.state.get()), IsOk());
  EXPECT_EQ(other.Window(), AsBits({1, 2, 3, 4}));
  for (OneModule* m : {&whole, &other}) {
    ASSERT_THAT(m->state->EndStep(Stream{}), IsOk());
    ASSERT_THAT(m->state->SetStep(0), IsOk());
    EXPECT_EQ(m->Window(), AsBits({3, 4}));
    EXPECT_EQ(m->Scale(), 448.0f / 4) << "made anew for E4M3";
  }
  EXPECT_EQ(Bytes(*other.state), Bytes(*whole.state));
}

TEST(LoadStateTest, TheInverseBelongsToTheScale) {  // J3
  OneModule m = LoadedInto(DelayedRecipe(""), {8}, DelayedRecipe(""));
  const SlotView view = m.state->View(m.slots.input);
  EXPECT_EQ(*view.scale, 56);
  EXPECT_EQ(*view.scale_inv, 1.0f / 56);
  EXPECT_EQ(*view.measure, 0u);
}

TEST(LoadStateTest, BeforeTheFirstStepInBothDirections) {  // J6
  const std::string recipe = DelayedRecipe("amax_history_len: 4");
  OneModule fresh = FrozenModule(recipe);
  OneModule trained = FrozenModule(recipe);
  ASSERT_THAT(trained.Step(8), IsOk());
  const StateImage image = Save(*fresh.state);
  ASSERT_THAT(Load(Save(*trained.state), fresh.state.get()), IsOk());
  EXPECT_EQ(fresh.Scale(), 56);
  ASSERT_THAT(Load(image, trained.state.get()), IsOk());
  EXPECT_EQ(trained.Scale(), 1);
  EXPECT_THAT(trained.Window(), IsEmpty());
  EXPECT_EQ(*trained.state->View(trained.slots.input).measure, 1u);
  EXPECT_EQ(trained.state->step(), 0);
}

TEST(LoadStateTest, AddressesStayAndTheLastStepCannotBeUndone) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  ASSERT_THAT(m.Step(8), IsOk());
  const StateImage image = Save(*m.state);
  const SlotView before = m.state->View(m.slots.input);
  ASSERT_THAT(m.Step(9), IsOk());
  ASSERT_THAT(Load(image, m.state.get()), IsOk());
  const SlotView after = m.state->View(m.slots.input);
  EXPECT_EQ(before.amax, after.amax);
  EXPECT_EQ(before.scale, after.scale);
  EXPECT_EQ(m.state->step(), 1);
  EXPECT_THAT(m.state->RestorePrevious(Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("step 1 is not kept")));
  ASSERT_THAT(m.Step(4), IsOk());
  EXPECT_THAT(m.state->RestorePrevious(Stream{}), IsOk());
  EXPECT_EQ(Bytes(*m.state), ValueOrDie(EncodeState(image)));
}

TEST(LoadStateTest, ReadingChangesNothing) {  // L7
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 2"));
  ASSERT_THAT(m.Step(8), IsOk());
  const std::string before = Bytes(*m.state);
  (void)m.Scale();
  (void)m.Window();
  (void)m.state->Check(Stream{});
  (void)m.state->Describe();
  EXPECT_EQ(Bytes(*m.state), before);
}

// ------------------------------------------------------------- another recipe

TEST(LoadStateTest, AnotherLengthKeepsTheNewest) {
  LoadReport report;
  OneModule shorter =
      LoadedInto(DelayedRecipe("amax_history_len: 4"), {1, 8, 2, 3, 0.5f, 4},
                 DelayedRecipe("amax_history_len: 2"), &report);
  EXPECT_EQ(shorter.Window(), AsBits({0.5f, 4}));
  EXPECT_EQ(shorter.Scale(), 112) << "until the next update";
  EXPECT_FALSE(report.same_recipe);
  EXPECT_THAT(report.recipe_differences,
              ElementsAre("defaults.input.delayed.amax_history_len: 4 -> 2",
                          "defaults.weight.delayed.amax_history_len: 4 -> 2",
                          "defaults.grad.delayed.amax_history_len: 4 -> 2"));
  EXPECT_THAT(report.ToString(),
              HasSubstr("the recipe changed: defaults.input"));
  ASSERT_THAT(shorter.Step(1), IsOk());
  EXPECT_EQ(shorter.Window(), AsBits({4, 1}));

  OneModule longer = LoadedInto(DelayedRecipe("amax_history_len: 2"), {9, 8, 2},
                                DelayedRecipe("amax_history_len: 5"));
  EXPECT_EQ(longer.Window(), AsBits({8, 2}));
  for (float amax : {1.0f, 1.0f, 1.0f}) ASSERT_THAT(longer.Step(amax), IsOk());
  EXPECT_EQ(longer.Scale(), 56);
  ASSERT_THAT(longer.Step(1), IsOk());
  EXPECT_EQ(longer.Scale(), 224) << "8 has left";
}

TEST(LoadStateTest, OtherOptionsTakeEffectAtTheNextUpdate) {  // K2
  OneModule margin =
      LoadedInto(DelayedRecipe("margin: 0"), {1}, DelayedRecipe("margin: 1"));
  EXPECT_EQ(margin.Scale(), 448);
  ASSERT_THAT(margin.Step(1), IsOk());
  EXPECT_EQ(margin.Scale(), 224);

  OneModule algo = LoadedInto(DelayedRecipe(""), {8},
                              DelayedRecipe("amax_compute_algo: MOST_RECENT"));
  EXPECT_EQ(algo.Scale(), 56);
  ASSERT_THAT(algo.Step(1), IsOk());
  EXPECT_EQ(algo.Scale(), 448);

  LoadReport report;
  OneModule group =
      LoadedInto(DelayedRecipe("", "amax_reduction { group: \"A\" }"), {8},
                 DelayedRecipe("", "amax_reduction { group: \"B\" }"), &report);
  EXPECT_THAT(report.recipe_differences, ElementsAre("amax_reduction.group: "
                                                     "\"A\" -> \"B\""));
  EXPECT_EQ(group.Scale(), 56);
  EXPECT_EQ(group.Window(), AsBits({8}));
  EXPECT_EQ(Save(*group.state).slots[0].group, "B");
}

TEST(LoadStateTest, AnotherFormatMakesTheScaleAnew) {
  const std::string e5m2 =
      "defaults { all { delayed { } } input { format: "
      "E5M2 delayed { } } weight { delayed { } } grad { "
      "format: E4M3 delayed { } } }";
  LoadReport report;
  OneModule m = LoadedInto(DelayedRecipe(""), {8, 2}, e5m2, &report);
  EXPECT_EQ(m.Scale(), 57344.0f / 8);
  EXPECT_EQ(m.Window(), AsBits({8, 2}));
  EXPECT_THAT(report.rescaled, ElementsAre("m/input"));
  // Nothing to make it of: as a new slot.
  OneModule empty = LoadedInto(DelayedRecipe(""), {}, e5m2);
  EXPECT_EQ(*empty.state->View(empty.slots.input).measure, 1u);
}

TEST(LoadStateTest, AnotherScalingDropsOrBeginsAnew) {  // K3
  const std::string mxfp8 = "defaults { all { mxfp8 { } } }";
  LoadReport report;
  OneModule without = LoadedInto(DelayedRecipe(""), {8}, mxfp8, &report);
  EXPECT_THAT(report.dropped, ElementsAre("m/grad", "m/input", "m/weight"));
  EXPECT_THAT(without.state->EndStep(Stream{}), IsOk());

  OneModule with = FrozenModule(DelayedRecipe(""));
  report = ValueOrDie(Load(Save(*without.state), with.state.get()));
  EXPECT_THAT(report.fresh, ElementsAre("m/grad", "m/input", "m/weight"));
  EXPECT_EQ(with.Scale(), 1);
  EXPECT_EQ(*with.state->View(with.slots.input).measure, 1u);
  EXPECT_EQ(with.state->step(), 2);

  // Phases of one recipe keep it.
  OneModule phased =
      LoadedInto(DelayedRecipe(""), {8},
                 DelayedRecipe("",
                               "phase { from_step: 1 all { mxfp8 { } } } "
                               "phase { from_step: 2 }"),
                 &report);
  EXPECT_THAT(report.dropped, IsEmpty());
  EXPECT_EQ(phased.state->active_phase(), 1);
  ASSERT_THAT(phased.state->EndStep(Stream{}), IsOk());
  EXPECT_EQ(phased.Scale(), 56);
  EXPECT_EQ(phased.Window(), AsBits({8}));
}

TEST(LoadStateTest, TheRecipeIsComparedAndNotExecuted) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  StateImage image = Save(*m.state);
  // A factory that no program registers is a name like any other.
  image.recipe = "defaults { all { custom { factory: \"not.registered\" } } }";
  image.recipe_fingerprint = "0000000000000000";
  const LoadReport report = ValueOrDie(Load(image, m.state.get()));
  EXPECT_THAT(report.ToString(), HasSubstr("not.registered"));
  EXPECT_EQ(m.state->recipe().fingerprint(),
            ParseRecipe(DelayedRecipe("")).fingerprint());

  image.recipe = "this is no recipe";
  EXPECT_THAT(ValueOrDie(Load(image, m.state.get())).warnings,
              ElementsAre(HasSubstr("cannot be compared")));

  LoadOptions strict;
  strict.require_same_recipe = true;
  EXPECT_THAT(Load(image, m.state.get(), strict),
              StatusIs(kFailedPrecondition, HasSubstr("the recipes differ")));
  EXPECT_THAT(Load(Save(*m.state), m.state.get(), strict), IsOk());
}

TEST(LoadStateTest, WithoutARecipeThePresentOneIsAssumed) {  // J7
  StateImage image;
  SlotImage slot;
  slot.name = "m/input";
  slot.delayed.emplace();
  slot.delayed->scale_bits = FloatBits(56);
  slot.delayed->window = AsBits({8, 2, 3});
  slot.delayed->capacity = 3;
  image.slots.push_back(slot);
  OneModule m = FrozenModule(
      "defaults { all { high_precision { } } input { format: E4M3 delayed { "
      "amax_history_len: 4 } } }");
  const LoadReport report = ValueOrDie(Load(image, m.state.get()));
  EXPECT_THAT(report.warnings,
              ElementsAre(AllOf(HasSubstr("names no recipe"),
                                HasSubstr("assumed to be those of the pres"))));
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.Window(), AsBits({8, 2, 3}));
  EXPECT_EQ(*m.state->View(m.slots.input).measure, 0u);
}

TEST(LoadStateTest, AScaleWithoutAWindowIsUsed) {
  StateImage image;
  SlotImage slot;
  slot.name = "m/input";
  slot.delayed.emplace();
  slot.delayed->scale_bits = FloatBits(56);
  image.slots.push_back(slot);
  OneModule m = FrozenModule(DelayedRecipe(""));
  LoadOptions options;
  options.allow_missing = true;
  ASSERT_THAT(Load(image, m.state.get(), options), IsOk());
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(*m.state->View(m.slots.input).measure, 0u);
  EXPECT_EQ(*m.state->View(m.slots.weight).measure, 1u);
}

// --------------------------------------------------------------- other modules

TEST(LoadStateTest, MissingAndExtraSlotsAreNamed) {  // J8
  const std::string recipe =
      "defaults { all { high_precision { } } input { format: E4M3 delayed { } "
      "} }";
  auto before = Frozen(recipe, {"shared", "x"});
  Observe(before->View({0}), FloatBits(8));
  ASSERT_THAT(before->EndStep(Stream{}), IsOk());
  const StateImage image = Save(*before);
  auto after = Frozen(recipe, {"shared", "y"});
  Observe(after->View({0}), FloatBits(3));
  const std::string untouched = Bytes(*after);
  EXPECT_THAT(
      Load(image, after.get()),
      StatusIs(kFailedPrecondition,
               "LoadState: the image lacks \"y/input\" (allow_missing makes it "
               "a new slot); the state lacks \"x/input\" of the image "
               "(allow_extra ignores it)"));
  LoadOptions options;
  options.allow_missing = true;
  EXPECT_THAT(Load(image, after.get(), options),
              StatusIs(kFailedPrecondition, Not(HasSubstr("y/input"))));
  EXPECT_EQ(Bytes(*after), untouched);
  options.allow_extra = true;
  const LoadReport report = ValueOrDie(Load(image, after.get(), options));
  EXPECT_THAT(report.missing, ElementsAre("y/input"));
  EXPECT_THAT(report.extra, ElementsAre("x/input"));
  EXPECT_THAT(after->Scale({0}, Stream{}), IsOkAndHolds(56.0f));
  EXPECT_THAT(after->Scale({3}, Stream{}), IsOkAndHolds(1.0f));
}

TEST(LoadStateTest, NothingSavedBeginsAnew) {  // J8
  OneModule m = FrozenModule(DelayedRecipe(""));
  ASSERT_THAT(m.Step(8), IsOk());
  LoadOptions options;
  EXPECT_THAT(Load(StateImage(), m.state.get(), options),
              StatusIs(kFailedPrecondition, HasSubstr("the image lacks")));
  EXPECT_EQ(m.Scale(), 56);
  options.allow_missing = true;
  ASSERT_THAT(Load(StateImage(), m.state.get(), options), IsOk());
  EXPECT_EQ(m.Scale(), 1);
  EXPECT_THAT(m.Window(), IsEmpty());
  EXPECT_EQ(*m.state->View(m.slots.weight).measure, 1u);
}

TEST(LoadStateTest, AnotherIdentityOrRoleIsRefused) {
  const auto with_identity = [](const std::string& identity) {
    auto state = MakeState(DelayedRecipe(""));
    EXPECT_THAT(state->AddModule("local_experts.0", identity), IsOk());
    EXPECT_THAT(state->Freeze(), IsOk());
    return state;
  };
  auto twelve = with_identity("expert 12"), three = with_identity("expert 3");
  EXPECT_THAT(Load(Save(*twelve), three.get()),
              StatusIs(kFailedPrecondition,
                       HasSubstr("slot \"local_experts.0/grad\": identity: got "
                                 "\"expert 12\", want \"expert 3\"")));
  EXPECT_THAT(Load(Save(*twelve), with_identity("expert 12").get()), IsOk());
  EXPECT_THAT(Load(Save(*twelve), with_identity("").get()), IsOk());
  StateImage image = Save(*three);
  image.slots[0].role = Role::kInput;
  EXPECT_THAT(Load(image, three.get()),
              StatusIs(kFailedPrecondition,
                       HasSubstr("grad\": role: got input, want grad")));
}

// ------------------------------------------------------------------ bad calls

TEST(LoadStateTest, CallsOutOfOrder) {
  OneModule m(DelayedRecipe(""));
  EXPECT_THAT(SaveState(*m.state, Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("SaveState before")));
  EXPECT_THAT(LoadState(StateImage(), LoadOptions(), Stream{}, m.state.get()),
              StatusIs(kFailedPrecondition, HasSubstr("LoadState before")));
  ASSERT_THAT(m.Freeze(), IsOk());
  const StateImage image = Save(*m.state);
  ASSERT_THAT(m.state->Pack(Stream{}), IsOk());
  EXPECT_THAT(SaveState(*m.state, Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("between Pack and")));
  EXPECT_THAT(Load(image, m.state.get()),
              StatusIs(kFailedPrecondition, HasSubstr("between Pack and")));
}

TEST(LoadStateTest, ANonsensicalImageChangesNothing) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  ASSERT_THAT(m.Step(8), IsOk());
  const std::string before = Bytes(*m.state);
  StateImage image = Save(*m.state);
  image.step = 77;
  image.slots[2].delayed->scale_bits = 0xFFFFFFFF;
  EXPECT_THAT(LoadState(image, LoadOptions(), Stream{}, m.state.get()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("slot \"m/weight\": scale: got nan")));
  EXPECT_EQ(Bytes(*m.state), before);
}

// --------------------------------------------------------------- observations

TEST(ResetObservationsTest, TheModulesBeginAnewAndTheOthersStay) {
  auto state = Frozen(DelayedRecipe("amax_history_len: 4"), {"a", "b"});
  for (int32_t slot = 0; slot < 6; ++slot) {
    Observe(state->View({slot}), FloatBits(8));
  }
  ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  Observe(state->View({1}), FloatBits(9));
  ASSERT_THAT(ResetObservations({"a"}, Stream{}, state.get()), IsOk());
  EXPECT_THAT(state->Scale({1}, Stream{}), IsOkAndHolds(1.0f));
  EXPECT_THAT(state->Window({1}, Stream{}), IsOkAndHolds(IsEmpty()));
  EXPECT_EQ(*state->View({1}).amax, 0u);
  EXPECT_EQ(*state->View({1}).measure, 1u);
  EXPECT_THAT(state->Scale({4}, Stream{}), IsOkAndHolds(56.0f));
  EXPECT_EQ(state->step(), 1);
  Observe(state->View({1}), FloatBits(2));
  ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  EXPECT_THAT(state->Scale({1}, Stream{}), IsOkAndHolds(224.0f));
}

TEST(ResetObservationsTest, AnUnknownModuleChangesNothing) {
  auto state = Frozen(DelayedRecipe(""), {"layers.0", "layers.1"});
  Observe(state->View({0}), FloatBits(8));
  const std::string before = Bytes(*state);
  EXPECT_THAT(
      ResetObservations({"layers.0", "layer.1"}, Stream{}, state.get()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "ResetObservations: module \"layer.1\" was not added to this "
               "RecipeState, did you mean \"layers.1\"?"));
  EXPECT_EQ(Bytes(*state), before);
}

}  // namespace
}  // namespace scalekeeper
