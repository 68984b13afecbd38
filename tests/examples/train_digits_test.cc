// The training example as its users see it: accuracy under each preset, and
// what must hold between ranks.
#include <string>
#include <vector>

#include "base/file.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

Digits LoadDigits() {
  const auto csv = ReadFile("examples/data/digits.csv");
  EXPECT_THAT(csv, IsOk());
  auto digits = ParseDigits(*csv, /*seed=*/0);
  EXPECT_THAT(digits, IsOk());
  return *std::move(digits);
}

TrainResult TrainUnder(const absl::StatusOr<Recipe>& recipe,
                       const TrainOptions& options) {
  EXPECT_THAT(recipe, IsOk());
  auto result = Train(*recipe, LoadDigits(), options, nullptr);
  EXPECT_THAT(result, IsOk());
  return *std::move(result);
}

absl::StatusOr<Recipe> Float32() {
  return Recipe::Parse("defaults { all { high_precision { dtype: FP32 } } }",
                       "float32");
}

struct Preset {
  const char* name;
  double lost;            // accuracy below float32's, at most
  size_t shared_scales;   // at least: where there is one scale, the weights'
  size_t quantizers = 9;  // that quantize in the phase that the run begins in
};

class TrainDigitsTest : public ::testing::TestWithParam<Preset> {};

TEST_P(TrainDigitsTest, IsCloseToFloat32AndRanksAgree) {
  const TrainOptions options;
  const TrainResult reference = TrainUnder(Float32(), options);
  const TrainResult result = TrainUnder(Recipe::Load(GetParam().name), options);
  EXPECT_GE(reference.accuracy, 0.95);
  EXPECT_GE(result.accuracy, reference.accuracy - GetParam().lost);
  ASSERT_EQ(result.scales.size(), 4u);
  EXPECT_GE(result.scales[0].size(), GetParam().shared_scales);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(result.scales[rank], result.scales[0]);
    EXPECT_EQ(result.parameters[rank], result.parameters[0]);
  }
  EXPECT_EQ(result.quantizers.size(), GetParam().quantizers);
}

INSTANTIATE_TEST_SUITE_P(
    Presets, TrainDigitsTest,
    ::testing::Values(
        Preset{"delayed_hybrid", 0.01, 3}, Preset{"delayed_e4m3", 0.01, 3},
        Preset{"tensorwise", 0.01, 3}, Preset{"rowwise", 0.015, 0},
        Preset{"blockwise", 0.015, 0}, Preset{"mxfp8", 0.015, 0},
        Preset{"nvfp4", 0.03, 0}, Preset{"high_precision", 0.01, 0, 0},
        Preset{"rowwise_wgrad_bf16", 0.015, 0},
        Preset{"nvfp4_bf16_tail", 0.03, 0},
        Preset{"delayed_hybrid_bf16_ends", 0.015, 0},
        Preset{"delayed_hybrid_bf16_warmup", 0.015, 0, 0}),
    [](const ::testing::TestParamInfo<Preset>& info) {
      return std::string(info.param.name);
    });

TrainOptions Short() {
  TrainOptions options;
  options.epochs = 2;
  options.ranks = 2;
  return options;
}

TEST(TrainDigitsBehaviorTest, TheSameSeedGivesTheSameBits) {
  const TrainResult a = TrainUnder(Recipe::Load("delayed_hybrid"), Short());
  const TrainResult b = TrainUnder(Recipe::Load("delayed_hybrid"), Short());
  EXPECT_EQ(a.scales, b.scales);
  EXPECT_EQ(a.loss, b.loss);
}

TEST(TrainDigitsBehaviorTest, TheRecipeGovernsTheRun) {
  // fc2 stays in high precision; a bf16 phase comes first; wgrad of fc3 is in
  // high precision; the group has a name of its own.
  const auto recipe = Recipe::Parse(R"(
    defaults { all { format: E4M3 delayed { amax_history_len: 4 } } }
    rule { module: "fc2" all { high_precision {} } }
    rule { module: "fc3" matmul { wgrad { high_precision: true } } }
    amax_reduction { group: "data_parallel" }
    phase { from_step: 0 all { high_precision {} } }
    phase { from_step: 5 }
  )",
                                    "mixed");
  const TrainResult result = TrainUnder(recipe, Short());
  ASSERT_EQ(result.quantizers.size(), 6u);
  for (const Linear::Report& report : result.quantizers) {
    EXPECT_THAT(report.quantizer, ::testing::Not(HasSubstr("fc2")));
    EXPECT_NE(report.scale, 1.0f) << report.quantizer;
  }
  EXPECT_EQ(result.scales[0], result.scales[1]);
}

TEST(TrainDigitsBehaviorTest, WithoutReductionRanksStillTrainAsOne) {
  const auto recipe = Recipe::Parse(
      "defaults { all { format: E4M3 delayed {} } } "
      "amax_reduction { enabled: false }",
      "local");
  const TrainResult result = TrainUnder(recipe, Short());
  EXPECT_THAT(result.scales[0], ::testing::IsEmpty()) << "none is shared";
  EXPECT_EQ(result.parameters[0], result.parameters[1]);
}

TEST(TrainDigitsBehaviorTest, FaultsOfTheRecipeEndAllRanks) {
  const auto recipe = Recipe::Parse(R"(
    defaults { all { delayed {} } }
    rule { module: "fc9" all { high_precision {} } }
  )",
                                    "stale");
  ASSERT_THAT(recipe, IsOk());
  EXPECT_THAT(CheckRecipe(*recipe),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fc9")));
  EXPECT_THAT(Train(*recipe, LoadDigits(), Short(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fc9")));
}

TEST(TrainDigitsBehaviorTest, TooManyRowsAreRefused) {
  TrainOptions options;
  options.ranks = 64;
  EXPECT_THAT(
      Train(*Float32(), LoadDigits(), options, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got 64 x 32")));
  options.ranks = 4;
  options.batch = int64_t{1} << 62;  // times 4 is 0 in 64 bits
  EXPECT_THAT(Train(*Float32(), LoadDigits(), options, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch")));
  options.batch = 32;
  options.epochs = int64_t{1} << 62;
  EXPECT_THAT(
      Train(*Float32(), LoadDigits(), options, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("epochs: got")));
}

TEST(ParseDigitsTest, NamesLineAndColumnOfAFault) {
  EXPECT_THAT(ParseDigits("1,2,3\n", 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("line 1: got 3 columns, want 65")));
  std::string row = "17";
  for (int i = 0; i < 64; ++i) row += ",0";
  EXPECT_THAT(ParseDigits(row, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("line 1, column 1: got '17', want 0..16")));
}

}  // namespace
}  // namespace scalekeeper
