// One rank: the tables of the delayed-scaling definition, the life of a state,
// what misuse gives.
#include "amax/recipe_state.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/delayed_oracle.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kFltMax = std::numeric_limits<float>::max();
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

std::vector<float> ScalesAfter(const std::string& recipe,
                               const std::vector<float>& amaxes) {
  OneModule m = FrozenModule(recipe);
  std::vector<float> scales;
  for (float amax : amaxes) {
    EXPECT_THAT(m.Step(amax), IsOk());
    scales.push_back(m.Scale());
  }
  return scales;
}

// The table of delayed scaling: amax, margin -> scale, bit for bit.
TEST(DelayedScalingTableTest, ScaleFromOneAmax) {  // B5
  struct Row {
    float amax;
    int margin;
    uint32_t scale;
  };
  const Row rows[] = {
      {1, 0, 0x43E00000},         {3, 0, 0x43155555}, {3.25f, 0, 0x4309D89E},
      {1, 1, 0x43600000},         {1, 2, 0x42E00000}, {0.75f, 2, 0x43155555},
      {100, 0, FloatBits(4.48f)},
  };
  for (const Row& row : rows) {
    OneModule m =
        FrozenModule(DelayedRecipe("margin: " + std::to_string(row.margin)));
    ASSERT_THAT(m.Step(row.amax), IsOk());
    EXPECT_EQ(FloatBits(m.Scale()), row.scale)
        << "amax " << row.amax << " margin " << row.margin;
    EXPECT_EQ(*m.state->View(m.slots.input).scale_inv, 1.0f / m.Scale());
  }
}

TEST(DelayedScalingTableTest, TinyAmaxGivesFltMaxWhateverTheMargin) {
  const float edge = DelayedOracle::Value(0x03E00001u);  // 448 / FLT_MAX
  const float subnormal = std::numeric_limits<float>::denorm_min();
  for (float amax : {edge, edge / 2, subnormal}) {
    EXPECT_THAT(ScalesAfter(DelayedRecipe(""), {amax}), ElementsAre(kFltMax));
  }
  for (const char* margin : {"margin: 1", "margin: 32"}) {
    EXPECT_THAT(ScalesAfter(DelayedRecipe(margin), {subnormal}),
                ElementsAre(kFltMax));
  }
}

TEST(DelayedScalingTableTest, HugeAmaxAndMarginStayNormal) {
  EXPECT_THAT(ScalesAfter(DelayedRecipe("margin: 32"), {kFltMax}),
              ElementsAre(std::numeric_limits<float>::min()));
}

TEST(DelayedScalingTableTest, FormatMaximumPerRole) {  // B13
  auto state = MakeState(
      "defaults { all { delayed { } } grad { format: E5M2 delayed { } } }");
  const ModuleSlots m = ValueOrDie(state->AddModule("m"));
  ASSERT_THAT(state->Freeze(), IsOk());
  for (Role role : kRoles) Observe(state->View(m.slot(role)), FloatBits(2));
  ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  EXPECT_THAT(state->Scale(m.input, Stream{}), IsOkAndHolds(224.0f));
  EXPECT_THAT(state->Scale(m.weight, Stream{}), IsOkAndHolds(224.0f));
  EXPECT_THAT(state->Scale(m.grad, Stream{}), IsOkAndHolds(28672.0f));
}

TEST(DelayedScalingTableTest, ZeroInfAndNaNKeepThePreviousScale) {
  for (const char* algo : {"MAX", "MOST_RECENT"}) {
    OneModule m =
        FrozenModule(DelayedRecipe("amax_compute_algo: " + std::string(algo)));
    ASSERT_THAT(m.Step(448.0f / 5), IsOk());
    const float before = m.Scale();
    EXPECT_NEAR(before, 5, 1e-6);
    for (float amax : {0.0f, kInf, kNaN}) {
      ASSERT_THAT(m.Step(amax), IsOk());
      EXPECT_EQ(m.Scale(), before);
    }
    EXPECT_EQ(m.Window().size(), 1u);
  }
}

TEST(DelayedScalingTableTest, WindowOfFour) {  // C1
  const std::vector<float> steps = {1, 8, 2, 3, 0.5f, 4};
  EXPECT_THAT(ScalesAfter(DelayedRecipe("amax_history_len: 4"), steps),
              ElementsAre(448, 56, 56, 56, 56, 112));
  EXPECT_THAT(
      ScalesAfter(
          DelayedRecipe("amax_history_len: 4 amax_compute_algo: MOST_RECENT"),
          steps),
      ElementsAre(448, 56, 224, 149.33333f, 896, 112));
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 4"));
  for (float amax : steps) ASSERT_THAT(m.Step(amax), IsOk());
  EXPECT_EQ(m.Window(), AsBits({2, 3, 0.5f, 4}));
}

TEST(DelayedScalingTableTest, StepsThatDoNotObserveDoNotRoll) {
  EXPECT_THAT(
      ScalesAfter(DelayedRecipe("amax_history_len: 2"), {8, 0, 0, 0, 1}),
      ElementsAre(56, 56, 56, 56, 56));
}

TEST(DelayedScalingTableTest, LengthOne) {  // C3
  for (const char* algo : {"MAX", "MOST_RECENT"}) {
    EXPECT_THAT(
        ScalesAfter(DelayedRecipe("amax_history_len: 1 amax_compute_algo: " +
                                  std::string(algo)),
                    {8, 1, 2}),
        ElementsAre(56, 448, 224));
  }
}

TEST(RecipeStateTest, OldMaximumLeavesAfterExactlyNSteps) {  // C4
  for (int run = 0; run < 100; ++run) {
    for (int n : {1, 2, 255, 256, 257, 1024}) {
      OneModule m =
          FrozenModule(DelayedRecipe("amax_history_len: " + std::to_string(n)));
      ASSERT_THAT(m.Step(8), IsOk());
      for (int update = 2; update <= n; ++update) {
        ASSERT_THAT(m.Step(1), IsOk());
        ASSERT_EQ(m.Scale(), 56) << "N " << n << " update " << update;
      }
      ASSERT_THAT(m.Step(1), IsOk());
      ASSERT_EQ(m.Scale(), 448) << "N " << n;
    }
  }
}

TEST(RecipeStateTest, NonFiniteAmaxLeavesWindowAndRaisesTheFlag) {  // B3
  for (const char* algo : {"MAX", "MOST_RECENT"}) {
    OneModule m =
        FrozenModule(DelayedRecipe("amax_compute_algo: " + std::string(algo)));
    ASSERT_THAT(m.Step(8), IsOk());
    EXPECT_THAT(m.state->Check(Stream{}), IsOk());
    ASSERT_THAT(m.Step(kInf), IsOk());
    EXPECT_EQ(m.Scale(), 56);
    EXPECT_THAT(m.state->Check(Stream{}),
                StatusIs(absl::StatusCode::kOutOfRange,
                         AllOf(HasSubstr("\"m/input\""), HasSubstr("1 step"))));
    ASSERT_THAT(m.Step(kNaN), IsOk());
    EXPECT_EQ(m.Scale(), 56);
    EXPECT_EQ(m.Window(), AsBits({8}));
    EXPECT_THAT(m.state->Check(Stream{}),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2 steps")));
    EXPECT_THAT(m.state->NonFiniteSlots(Stream{}),
                IsOkAndHolds(ElementsAre("m/input")));
    ASSERT_THAT(m.state->ClearFlags(Stream{}), IsOk());
    EXPECT_THAT(m.state->Check(Stream{}), IsOk());
    EXPECT_THAT(m.state->NonFiniteSlots(Stream{}), IsOkAndHolds(IsEmpty()));
  }
}

TEST(RecipeStateTest, NaNIsSeenInEveryOrderOfObservation) {  // C10
  const std::vector<std::vector<float>> orders = {{1, kNaN, 2}, {1, 2, kNaN},
                                                  {kNaN, 1, 2}, {kNaN, 2, 1},
                                                  {2, kNaN, 1}, {2, 1, kNaN}};
  for (const std::vector<float>& order : orders) {
    OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 4"));
    ASSERT_THAT(m.Step(2), IsOk());
    for (float value : order) m.Observe(value);
    ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
    EXPECT_EQ(m.Scale(), 224);
    EXPECT_THAT(m.state->Check(Stream{}),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("m/input")));
  }
}

TEST(RecipeStateTest, BackOffHalvesAndFreezeHoldsWhileNonFinite) {
  OneModule back_off = FrozenModule(DelayedRecipe("non_finite_amax: BACK_OFF"));
  ASSERT_THAT(back_off.Step(kInf), IsOk());
  EXPECT_EQ(back_off.Scale(), 0.5f);
  EXPECT_EQ(*back_off.state->View(back_off.slots.input).measure, 1u)
      << "a halving is not a scale made from an amax";
  ASSERT_THAT(back_off.Step(8), IsOk());
  ASSERT_THAT(back_off.Step(kNaN), IsOk());
  EXPECT_EQ(back_off.Scale(), 28);
  EXPECT_EQ(back_off.Window(), AsBits({8}));

  OneModule freeze = FrozenModule(
      DelayedRecipe("non_finite_amax: FREEZE amax_history_len: 2"));
  EXPECT_THAT(freeze.Step(8), IsOk());
  for (float amax : {kInf, 1.0f}) {  // inf stays in the window for two steps
    ASSERT_THAT(freeze.Step(amax), IsOk());
    EXPECT_EQ(freeze.Scale(), 56);
  }
  ASSERT_THAT(freeze.Step(2), IsOk());
  EXPECT_EQ(freeze.Scale(), 224);
}

TEST(RecipeStateTest, ZeroAmaxIsNotObserved) {  // B1
  OneModule m = FrozenModule(DelayedRecipe(""));
  ASSERT_THAT(m.Step(8), IsOk());
  ASSERT_THAT(m.Step(0), IsOk());
  ASSERT_THAT(m.Step(-0.0f), IsOk());  // a foreign sign bit is masked
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.Window(), AsBits({8}));
}

TEST(RecipeStateTest, ObservationsOfOneStepAccumulateWithMax) {  // C6, C7
  OneModule shared = FrozenModule(DelayedRecipe(""));
  shared.Observe(9);
  ASSERT_THAT(shared.Step(2), IsOk());
  EXPECT_EQ(shared.Scale(), 448.0f / 9);
  OneModule micro = FrozenModule(DelayedRecipe(""));
  micro.Observe(5);
  ASSERT_THAT(micro.Step(3), IsOk());
  EXPECT_EQ(micro.Scale(), 89.6f);
}

TEST(RecipeStateTest, TheObservedWordIsClearedByTheUpdate) {  // C8
  EXPECT_THAT(
      ScalesAfter(DelayedRecipe("amax_compute_algo: MOST_RECENT"), {8, 1}),
      ElementsAre(56, 448));
}

TEST(RecipeStateTest, MeasureHoldsUntilAScaleWasMade) {  // L12, scale part
  OneModule m = FrozenModule(DelayedRecipe(""));
  const SlotView view = m.state->View(m.slots.input);
  EXPECT_EQ(*view.measure, 1u);
  EXPECT_EQ(*view.scale, 1);
  ASSERT_THAT(m.Step(0), IsOk());
  ASSERT_THAT(m.Step(kNaN), IsOk());
  EXPECT_EQ(*view.measure, 1u);
  ASSERT_THAT(m.Step(0.02f), IsOk());
  EXPECT_EQ(*view.measure, 0u);
  EXPECT_EQ(*view.scale, 22400);
  OneModule unit = FrozenModule(DelayedRecipe("first_step: UNIT"));
  EXPECT_EQ(*unit.state->View(unit.slots.input).measure, 0u);
}

TEST(RecipeStateTest, OnlyDelayedSlotsHaveState) {  // B11, state part
  auto state = MakeState(
      "defaults { input { delayed { } } weight { format: E4M3 current { } } "
      "grad { high_precision { } } }");
  const ModuleSlots m = ValueOrDie(state->AddModule("m"));
  EXPECT_EQ(state->View(m.input).amax, nullptr) << "before Freeze";
  ASSERT_THAT(state->Freeze(), IsOk());
  EXPECT_NE(state->View(m.input).amax, nullptr);
  EXPECT_NE(state->View(m.weight).amax, nullptr) << "for its flag";
  EXPECT_EQ(state->View(m.weight).scale, nullptr);
  EXPECT_EQ(state->View(m.weight).measure, nullptr);
  EXPECT_EQ(state->View(m.grad).amax, nullptr);
  EXPECT_EQ(state->View(m.grad).scale, nullptr);
  EXPECT_EQ(state->policy(m.grad).scaling, Scaling::kHighPrecision);
  EXPECT_THAT(state->Scale(m.weight, Stream{}),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("\"m/weight\""), HasSubstr("current"))));
  const AmaxMessageView message = ValueOrDie(state->AmaxMessage("default"));
  EXPECT_EQ(message.count, 1u + 5u) << "one slot and the control words";
}

TEST(RecipeStateTest, CurrentScalingRaisesItsFlagAndNothingElse) {  // B3
  auto state = MakeState(
      "defaults { all { format: E4M3 current { } } } "
      "rule { module: \"d\" all { delayed { } } }");
  const ModuleSlots c = ValueOrDie(state->AddModule("c"));
  const ModuleSlots d = ValueOrDie(state->AddModule("d"));
  ASSERT_THAT(state->Freeze(), IsOk());
  Observe(state->View(c.input), FloatBits(8));
  Observe(state->View(d.input), FloatBits(8));
  ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  EXPECT_THAT(state->Check(Stream{}), IsOk());
  for (const float amax : {kInf, kNaN}) {
    Observe(state->View(c.input), FloatBits(amax));
    ASSERT_THAT(state->EndStep(Stream{}), IsOk());
    EXPECT_EQ(*state->View(c.input).amax, 0u) << "cleared for the next step";
  }
  EXPECT_THAT(state->Check(Stream{}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("c/input")));
  EXPECT_THAT(state->NonFiniteSlots(Stream{}),
              IsOkAndHolds(::testing::ElementsAre("c/input")));
  EXPECT_THAT(state->Scale(d.input, Stream{}), IsOkAndHolds(56.0f));
  const uint32_t skip = 1;
  ASSERT_THAT(state->ClearFlags(Stream{}), IsOk());
  Observe(state->View(c.input), FloatBits(kInf));
  ASSERT_THAT(state->EndStep(Stream{}, &skip), IsOk());
  EXPECT_THAT(state->Check(Stream{}), IsOk()) << "the step was dropped";
}

TEST(RecipeStateTest, AddSlotTakesThePolicyOfItsModuleAndRole) {
  auto state = MakeState(
      DelayedRecipe("",
                    "rule { module: \"attn\" grad { format: E5M2 delayed { "
                    "margin: 1 } } }"));
  const SlotId dp = ValueOrDie(state->AddSlot("attn", "dp", Role::kGrad));
  const ModuleSlots attn = ValueOrDie(state->AddModule("attn"));
  ASSERT_THAT(state->Freeze(), IsOk());
  EXPECT_EQ(state->name(dp), "attn/dp");
  EXPECT_EQ(state->policy(dp), state->policy(attn.grad));
  EXPECT_EQ(state->slot_count(), 4u);
  Observe(state->View(dp), FloatBits(2));
  ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  EXPECT_THAT(state->Scale(dp, Stream{}), IsOkAndHolds(14336.0f));
  EXPECT_THAT(state->Scale(attn.grad, Stream{}), IsOkAndHolds(1.0f));
}

TEST(RecipeStateTest, SlotsLieInNaturalOrderWhateverTheOrderOfAdding) {
  auto state = MakeState(DelayedRecipe(""));
  const ModuleSlots ten = ValueOrDie(state->AddModule("experts.10"));
  const ModuleSlots two = ValueOrDie(state->AddModule("experts.2"));
  ASSERT_THAT(state->Freeze(), IsOk());
  EXPECT_EQ(state->View(two.weight).amax, state->View(two.input).amax + 1);
  EXPECT_EQ(state->View(two.grad).amax, state->View(two.input).amax + 2);
  EXPECT_EQ(state->View(ten.input).amax, state->View(two.input).amax + 3);
}

TEST(RecipeStateTest, AFamilyLiesInTheOrderOfItsNumbers) {
  auto state = MakeState(DelayedRecipe(""));
  ASSERT_THAT(state->AddModule("zebra"), IsOk());
  const std::vector<ModuleSlots> experts =
      ValueOrDie(state->AddModules("experts", 12));
  const std::vector<ModuleSlots> fc2 =
      ValueOrDie(state->AddModules("moe", 2, "fc2"));
  ASSERT_THAT(state->AddModule("aardvark"), IsOk());
  ASSERT_THAT(state->Freeze(), IsOk());
  ASSERT_EQ(experts.size(), 12u);
  for (size_t i = 0; i < experts.size(); ++i) {
    EXPECT_EQ(state->name(experts[i].weight),
              absl::StrCat("experts.", i, "/weight"));
    EXPECT_EQ(state->View(experts[i].input).amax,
              state->View(experts[0].input).amax + 3 * i);
    EXPECT_EQ(state->View(experts[i].grad).scale,
              state->View(experts[0].input).scale + 3 * i + 2);
  }
  EXPECT_EQ(state->name(fc2[1].input), "moe.1.fc2/input");
}

TEST(RecipeStateTest, AFamilyIsAddedAsAWholeOrNotAtAll) {
  auto state = MakeState(DelayedRecipe(""));
  ASSERT_THAT(state->AddModule("experts.2"), IsOk());
  EXPECT_THAT(state->AddModules("experts", 4),
              StatusIs(kInvalidArgument, HasSubstr("\"experts.2\"")));
  EXPECT_EQ(state->slot_count(), 3u);
  EXPECT_THAT(state->AddModules("experts", 0),
              StatusIs(kInvalidArgument, HasSubstr("count 0")));
  EXPECT_THAT(state->AddModules("", 4),
              StatusIs(kInvalidArgument, HasSubstr("family")));
  ASSERT_THAT(state->Freeze(), IsOk());
  EXPECT_THAT(state->AddModules("late", 4),
              StatusIs(kFailedPrecondition, HasSubstr("after Freeze")));
}

TEST(RecipeStateTest, MisuseIsNamed) {
  auto state = MakeState(DelayedRecipe(""));
  EXPECT_THAT(
      state->EndStep(Stream{}),
      StatusIs(kFailedPrecondition, HasSubstr("EndStep before Freeze")));
  EXPECT_THAT(state->Pack(Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("Pack before Freeze")));
  EXPECT_THAT(state->AddModule(""),
              StatusIs(kInvalidArgument, HasSubstr("empty name")));
  ASSERT_THAT(state->AddModule("fc1"), IsOk());
  EXPECT_THAT(state->AddModule("fc1"),
              StatusIs(kInvalidArgument, HasSubstr("\"fc1\" was added")));
  // They are lines and fields of what ranks compare.
  for (absl::string_view control : {"\t", "\n", "\r", "\x7f"}) {
    EXPECT_THAT(state->AddModule(absl::StrCat("fc", control, "9")),
                StatusIs(kInvalidArgument, HasSubstr("module \"fc\\")));
    EXPECT_THAT(
        state->AddSlot("fc1", absl::StrCat("s", control), Role::kInput),
        StatusIs(kInvalidArgument, HasSubstr("for module \"fc1\" name")));
  }
  EXPECT_THAT(state->AddModule(absl::string_view("fc\0001", 4)),
              StatusIs(kInvalidArgument, HasSubstr("control characters")));
  EXPECT_THAT(state->AddSlot("fc1", "", Role::kInput),
              StatusIs(kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(state->AddSlot("fc1", "grad", Role::kGrad),
              StatusIs(kInvalidArgument, HasSubstr("\"fc1/grad\"")));
  ASSERT_THAT(state->Freeze(), IsOk());
  EXPECT_THAT(state->Freeze(),
              StatusIs(kFailedPrecondition, HasSubstr("called before")));
  EXPECT_THAT(state->AddModule("late"),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("late"), HasSubstr("after Freeze"))));
  EXPECT_THAT(state->AddSlot("late", "s", Role::kInput),
              StatusIs(kFailedPrecondition, HasSubstr("after Freeze")));
  EXPECT_THAT(state->Update(Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("without Pack")));
  EXPECT_THAT(state->AmaxMessage("dp"),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("\"dp\""), HasSubstr("\"default\""))));
  ASSERT_THAT(state->Pack(Stream{}), IsOk());
  EXPECT_THAT(state->Pack(Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("Pack between Pack")));
  EXPECT_THAT(state->EndStep(Stream{}),
              StatusIs(kFailedPrecondition, HasSubstr("CancelPack")));
  EXPECT_THAT(state->SetStep(3),
              StatusIs(kFailedPrecondition, HasSubstr("between Pack")));
  ASSERT_THAT(state->CancelPack(), IsOk());
  EXPECT_THAT(state->SetStep(-1),
              StatusIs(kInvalidArgument, HasSubstr("got -1")));
  EXPECT_THAT(state->Scale(SlotId{99}, Stream{}),
              StatusIs(kInvalidArgument, HasSubstr("99")));
  EXPECT_THAT(state->Scale(SlotId{}, Stream{}),
              StatusIs(kInvalidArgument, HasSubstr("-1")));
}

TEST(RecipeStateTest, CreateRefusesWhatItCannotUse) {
  RecipeStateOptions cuda;
  cuda.device = Device::Cuda(0);
  EXPECT_THAT(RecipeState::Create(ParseRecipe(DelayedRecipe("")), cuda),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("cuda:0")));
  RecipeStateOptions null_group;
  null_group.groups["dp"] = nullptr;
  EXPECT_THAT(RecipeState::Create(ParseRecipe(DelayedRecipe("")), null_group),
              StatusIs(kInvalidArgument, HasSubstr("groups[\"dp\"]")));
}

TEST(RecipeStateTest, ADiscardedStepDropsTheObservations) {
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 4"));
  EXPECT_THAT(m.Step(8), IsOk());
  m.Observe(std::numeric_limits<float>::infinity());
  EXPECT_THAT(m.state->DiscardStep(Stream{}), IsOk());
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_EQ(m.state->step(), 2);
  EXPECT_EQ(m.state->counters().skipped, 1);
  EXPECT_THAT(m.state->Check(Stream{}), IsOk()) << "and raises no flag";
  EXPECT_THAT(m.Step(16), IsOk());
  EXPECT_THAT(m.Window(), ElementsAre(FloatBits(8), FloatBits(16)));
  OneModule early(DelayedRecipe(""));
  EXPECT_THAT(early.state->DiscardStep(Stream{}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("before Freeze")));
}

TEST(RecipeStateTest, SkipFlagDropsTheObservations) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  ASSERT_THAT(m.Step(8), IsOk());
  const uint32_t set = 1, clear = 0;
  m.Observe(kInf);
  ASSERT_THAT(m.state->EndStep(Stream{}, &set), IsOk());
  EXPECT_EQ(m.Scale(), 56);
  EXPECT_THAT(m.state->Check(Stream{}), IsOk())
      << "what is dropped is not seen";
  EXPECT_EQ(*m.state->View(m.slots.input).amax, 0u);
  EXPECT_EQ(m.state->counters().updates, 2);
  EXPECT_EQ(m.state->counters().skipped, 1);
  m.Observe(16);
  ASSERT_THAT(m.state->EndStep(Stream{}, &clear), IsOk());
  EXPECT_EQ(m.Scale(), 28);
  // As parts, with the flag known only after the reduction.
  m.Observe(1000);
  ASSERT_THAT(m.state->Pack(Stream{}), IsOk());
  ASSERT_THAT(m.state->Update(Stream{}, &set), IsOk());
  EXPECT_EQ(m.Scale(), 28);
}

TEST(RecipeStateTest, RestorePreviousUndoesOneStepExactly) {
  for (const char* options :
       {"amax_history_len: 1", "amax_history_len: 2", "amax_history_len: 7",
        "amax_history_len: 3 amax_compute_algo: MOST_RECENT",
        "amax_history_len: 16 non_finite_amax: FREEZE",
        "non_finite_amax: BACK_OFF"}) {
    OneModule m = FrozenModule(DelayedRecipe(options));
    OneModule twin = FrozenModule(DelayedRecipe(options));
    EXPECT_THAT(m.state->RestorePrevious(Stream{}),
                StatusIs(kFailedPrecondition, HasSubstr("not kept")));
    const std::vector<float> amaxes = {8, 1, 0, kInf, 3, 5, 1, 1, 9, 2, 2, 7};
    for (size_t i = 0; i < amaxes.size(); ++i) {
      SCOPED_TRACE(std::string(options) + " step " + std::to_string(i));
      ASSERT_THAT(m.Step(1e6f), IsOk());  // the step to be undone
      m.Observe(77);                      // belongs to a step that is lost
      ASSERT_THAT(m.state->RestorePrevious(Stream{}), IsOk());
      EXPECT_EQ(m.state->step(), static_cast<int64_t>(i));
      EXPECT_EQ(m.state->counters().updates, static_cast<int64_t>(i));
      EXPECT_EQ(m.Window(), twin.Window());
      EXPECT_EQ(m.Scale(), twin.Scale());
      EXPECT_EQ(*m.state->View(m.slots.input).measure,
                *twin.state->View(twin.slots.input).measure);
      EXPECT_THAT(m.state->RestorePrevious(Stream{}),
                  StatusIs(kFailedPrecondition, HasSubstr("once")));
      ASSERT_THAT(m.Step(amaxes[i]), IsOk());
      ASSERT_THAT(twin.Step(amaxes[i]), IsOk());
      EXPECT_EQ(m.Window(), twin.Window());
      EXPECT_EQ(m.Scale(), twin.Scale());
      EXPECT_EQ(m.state->Check(Stream{}), twin.state->Check(Stream{}));
    }
  }
}

TEST(RecipeStateTest, ReadingChangesNothing) {  // L7
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 2"));
  ASSERT_THAT(m.Step(8), IsOk());
  const std::vector<uint32_t> window = m.Window();
  for (int eval = 0; eval < 3; ++eval) EXPECT_EQ(m.Scale(), 56);
  EXPECT_THAT(m.state->Check(Stream{}), IsOk());
  EXPECT_EQ(m.Window(), window);
  ASSERT_THAT(m.Step(1), IsOk());
  EXPECT_EQ(m.Scale(), 56);
}

TEST(RecipeStateTest, AddressesHoldAndOneAllocationServesAll) {
  class CountingAllocator : public Allocator {
   public:
    absl::StatusOr<void*> Allocate(size_t bytes) override {
      ++allocations;
      live += bytes;
      return HostAllocator()->Allocate(bytes);
    }
    void Deallocate(void* data, size_t bytes) override {
      live -= bytes;
      HostAllocator()->Deallocate(data, bytes);
    }
    Device device() const override { return Device::Host(); }
    int allocations = 0;
    size_t live = 0;
  };
  CountingAllocator allocator;
  {
    RecipeStateOptions options;
    options.allocator = &allocator;
    OneModule m = FrozenModule(
        DelayedRecipe("",
                      "phase { from_step: 3 all { format: E4M3 delayed { "
                      "amax_history_len: 5 } } }"),
        options);
    EXPECT_EQ(allocator.allocations, 1);
    const SlotView before = m.state->View(m.slots.grad);
    for (int step = 0; step < 6; ++step) ASSERT_THAT(m.Step(1), IsOk());
    const SlotView after = m.state->View(m.slots.grad);
    EXPECT_EQ(before.amax, after.amax);
    EXPECT_EQ(before.scale, after.scale);
    EXPECT_EQ(before.measure, after.measure);
    EXPECT_EQ(allocator.allocations, 1);
  }
  EXPECT_EQ(allocator.live, 0u);
}

TEST(RecipeStateDeathTest, ReferencesToUnknownThingsEndTheProcess) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  EXPECT_DEATH(m.state->policy(SlotId{42}), "slot 42 is not of this");
  EXPECT_DEATH(m.state->gemm_policy("nope", Gemm::kFprop), "\"nope\"");
  EXPECT_FALSE(m.state->gemm_policy("m", Gemm::kDgrad).fast_accum);
  EXPECT_TRUE(m.state->gemm_policy("m", Gemm::kFprop).fast_accum);
}

}  // namespace
}  // namespace scalekeeper
