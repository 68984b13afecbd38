// The training example as its users see it: what must hold between ranks, and
// its faults.

#include "examples/train_digits/digits.h"
#include "examples/train_digits/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/examples/training_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

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
