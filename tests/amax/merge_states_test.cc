// Several ranks' states as one: what a single rank would have had.
#include "amax/merge_states.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "amax/checkpoint.h"
#include "amax/load_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

StateImage Save(const RecipeState& state) {
  return ValueOrDie(SaveState(state, Stream{}));
}

StateImage AfterSteps(const std::string& recipe,
                      const std::vector<float>& amaxes) {
  OneModule m = FrozenModule(recipe);
  for (float amax : amaxes) EXPECT_THAT(m.Step(amax), IsOk());
  return Save(*m.state);
}

const DelayedImage& Input(const StateImage& image) {
  return *image.Find("m/input")->delayed;
}

TEST(MergeStatesTest, IsWhatOneRankWouldHave) {
  for (const char* algo : {"MAX", "MOST_RECENT"}) {
    const std::string recipe =
        DelayedRecipe("amax_history_len: 5 margin: 1 amax_compute_algo: " +
                      std::string(algo));
    std::mt19937 random(7);
    OneModule whole = FrozenModule(recipe);
    std::vector<OneModule> ranks;
    for (int r = 0; r < 3; ++r) ranks.push_back(FrozenModule(recipe));
    for (int step = 0; step < 12; ++step) {
      for (OneModule& rank : ranks) {
        const float amax = static_cast<float>(random() % 1000 + 1) / 64.0f;
        rank.Observe(amax);
        whole.Observe(amax);
        ASSERT_THAT(rank.state->EndStep(Stream{}), IsOk());
      }
      ASSERT_THAT(whole.state->EndStep(Stream{}), IsOk());
      std::vector<StateImage> images;
      for (OneModule& rank : ranks) images.push_back(Save(*rank.state));
      EXPECT_EQ(ValueOrDie(EncodeState(ValueOrDie(MergeStates(images)))),
                ValueOrDie(EncodeState(Save(*whole.state))))
          << algo << " step " << step;
    }
  }
}

TEST(MergeStatesTest, WindowsAreAlignedAtTheirNewest) {
  const std::string recipe = DelayedRecipe("amax_history_len: 4");
  // The second rank did not observe in its first two steps.
  const StateImage a = AfterSteps(recipe, {9, 1, 8, 2});
  const StateImage b = AfterSteps(recipe, {0, 0, 3, 4});
  for (const auto& images :
       {std::vector<StateImage>{a, b}, std::vector<StateImage>{b, a}}) {
    const StateImage merged = ValueOrDie(MergeStates(images));
    EXPECT_EQ(Input(merged).window, AsBits({9, 1, 8, 4}));
    EXPECT_EQ(Input(merged).scale_bits, FloatBits(448.0f / 9));
  }
}

TEST(MergeStatesTest, WhatWasMeasuredYieldsToAScale) {
  const std::string recipe = DelayedRecipe("");
  const StateImage fresh = AfterSteps(recipe, {0});
  const StateImage tiny = AfterSteps(recipe, {0.5f});
  for (const auto& images : {std::vector<StateImage>{fresh, tiny},
                             std::vector<StateImage>{tiny, fresh}}) {
    const StateImage merged = ValueOrDie(MergeStates(images));
    EXPECT_EQ(Input(merged).scale_bits, FloatBits(896)) << "not the initial 1";
    EXPECT_FALSE(Input(merged).measure);
  }
  EXPECT_TRUE(Input(ValueOrDie(MergeStates({fresh, fresh}))).measure);
}

TEST(MergeStatesTest, ABackedOffScaleCounts) {
  const std::string recipe = DelayedRecipe("non_finite_amax: BACK_OFF");
  const StateImage a =
      AfterSteps(recipe, {8, std::numeric_limits<float>::infinity()});
  const StateImage b = AfterSteps(recipe, {8, 8});
  const StateImage merged = ValueOrDie(MergeStates({a, b}));
  EXPECT_EQ(Input(merged).scale_bits, FloatBits(28));
  EXPECT_EQ(merged.Find("m/input")->non_finite_steps, 1u);
}

TEST(MergeStatesTest, PendingAmaxesAndSlotsOfOneRankAreTaken) {
  const std::string recipe = DelayedRecipe("");
  std::vector<StateImage> images;
  for (const char* own : {"stage.0", "stage.10"}) {
    auto state = MakeState(recipe);
    ASSERT_THAT(state->AddModule("shared"), IsOk());
    ASSERT_THAT(state->AddModule(own), IsOk());
    ASSERT_THAT(state->Freeze(), IsOk());
    Observe(state->View({0}), FloatBits(own[6] == '0' ? 5 : 3));
    Observe(state->View({3}), FloatBits(2));
    images.push_back(Save(*state));
  }
  const StateImage merged = ValueOrDie(MergeStates(images));
  EXPECT_EQ(merged.slots.size(), 9u);
  EXPECT_EQ(merged.Find("shared/input")->amax_bits, FloatBits(5));
  EXPECT_EQ(merged.Find("stage.10/input")->amax_bits, FloatBits(2));
  EXPECT_THAT(ValidateImage(merged), IsOk());
}

TEST(MergeStatesTest, WhatDiffersIsNamed) {
  const std::string recipe = DelayedRecipe("amax_history_len: 4");
  const StateImage a = AfterSteps(recipe, {8});
  StateImage b = AfterSteps(recipe, {8, 4});
  EXPECT_THAT(MergeStates({a, b}),
              StatusIs(kFailedPrecondition,
                       "MergeStates: step: got 1 and 2, want the same"));
  MergeOptions options;
  options.allow_different_steps = true;
  EXPECT_EQ(ValueOrDie(MergeStates({a, b}, options)).step, 2);

  const StateImage other = AfterSteps(DelayedRecipe("amax_history_len: 4",
                                                    "rule { module: \"m\" "
                                                    "weight { delayed { "
                                                    "margin: 2 } } }"),
                                      {8});
  EXPECT_THAT(MergeStates({a, other}),
              StatusIs(kFailedPrecondition, HasSubstr("recipe_fingerprint")));
  options.allow_different_recipes = true;
  EXPECT_THAT(MergeStates({a, other}, options),
              StatusIs(kFailedPrecondition,
                       HasSubstr("slot \"m/weight\": options: got E4M3 "
                                 "margin=0")));

  b = a;
  b.slots[1].identity = "expert 3";
  EXPECT_THAT(
      MergeStates({a, b}),
      StatusIs(kFailedPrecondition,
               HasSubstr("slot \"m/input\": identity: got \"\" and \"expert")));
  b = a;
  b.slots[0].delayed->scale_bits = 0;
  EXPECT_THAT(MergeStates({a, b}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("image 1: slot \"m/grad\": scale")));
  EXPECT_THAT(MergeStates({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("got no image")));
}

}  // namespace
}  // namespace scalekeeper
