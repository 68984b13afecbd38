// The example of a program's own quantizer: its format, and that the digits are
// learned with it from a recipe file.
#include "quantizer/custom_quantizer.h"

#include <cmath>
#include <string>

#include "base/file.h"
#include "examples/custom_quantizer/log8.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

TEST(Log8Test, CodesAreEvenOnALogarithmicScale) {
  EXPECT_EQ(EncodeLog8(3.0f, 3.0f, 8), 0x7F);
  EXPECT_EQ(EncodeLog8(-1.5f, 3.0f, 8), 0x80 | (127 - 8));
  EXPECT_EQ(EncodeLog8(0.0f, 3.0f, 8), 0);
  EXPECT_EQ(EncodeLog8(-0.0f, 3.0f, 8), 0x80);
  EXPECT_EQ(EncodeLog8(1.0f, 0.0f, 8), 0) << "an all-zero tensor";
  EXPECT_EQ(EncodeLog8(std::nanf(""), 3.0f, 8) & 0x7F, 0x7F);
  EXPECT_EQ(EncodeLog8(1e-30f, 3.0f, 8), 0) << "far below the smallest";
  for (int code = 0; code < 256; ++code) {
    const auto c = static_cast<uint8_t>(code);
    EXPECT_EQ(EncodeLog8(DecodeLog8(c, 3.0f, 8), 3.0f, 8), c);
  }
  // Half a step of 2^(1/8) at most.
  for (float x = 3.0f; x > 3e-4f; x *= 0.97f) {
    const float back = DecodeLog8(EncodeLog8(x, 3.0f, 8), 3.0f, 8);
    EXPECT_NEAR(std::log2(back / x), 0, 1.0 / 16 + 1e-5) << x;
  }
}

class CustomQuantizerExampleTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { EXPECT_THAT(RegisterLog8(), IsOk()); }

  static absl::StatusOr<TrainResult> TrainUnder(
      const absl::StatusOr<Recipe>& recipe, const TrainOptions& options) {
    const auto csv = ReadFile("examples/data/digits.csv");
    if (!csv.ok()) return csv.status();
    const auto digits = ParseDigits(*csv, /*seed=*/0);
    if (!digits.ok()) return digits.status();
    if (!recipe.ok()) return recipe.status();
    return Train(*recipe, *digits, options, nullptr);
  }
};

TEST_F(CustomQuantizerExampleTest, LearnsTheDigitsFromARecipeFile) {
  const TrainOptions options;
  const auto float32 = TrainUnder(
      Recipe::Parse("defaults { all { high_precision { dtype: FP32 } } }",
                    "float32"),
      options);
  ASSERT_THAT(float32, IsOk());
  const auto log8 = TrainUnder(
      Recipe::Load("examples/custom_quantizer/log8.textproto"), options);
  ASSERT_THAT(log8, IsOk());
  EXPECT_GE(log8->accuracy, 0.95);
  EXPECT_GE(log8->accuracy, float32->accuracy - 0.015);
  for (const auto& parameters : log8->parameters) {
    EXPECT_EQ(parameters, log8->parameters.front()) << "ranks agree";
  }
}

TEST_F(CustomQuantizerExampleTest, MixesWithTheLibrarysOwnScalings) {
  TrainOptions options;
  options.epochs = 2;
  options.ranks = 2;
  EXPECT_THAT(TrainUnder(Recipe::Parse(R"(
                defaults { all { format: E4M3 delayed {} } }
                rule { module: "fc2" all { custom { factory: "examples.log8" } } }
              )",
                                       "mixed"),
                         options),
              IsOk());
}

TEST_F(CustomQuantizerExampleTest, ANaNRaisesTheFlagOfTheSlot) {
  OneModule m = FrozenModule(
      "defaults { all { custom { factory: \"examples.log8\" } } }");
  auto quantizer = ValueOrDie(MakeQuantizer(m.state.get(), m.slots.input));
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f, std::nanf("")});
  const QuantizedTensor q = ValueOrDie(quantizer->Quantize(x.view(), Stream{}));
  TestTensor back(DType::kF32, 1, 2);
  ASSERT_THAT(quantizer->Dequantize(q, back.view(), Stream{}), IsOk());
  EXPECT_EQ(back.at(0, 0), 1.0f);
  ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
  EXPECT_THAT(m.state->Check(Stream{}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("m/input")));
}

TEST_F(CustomQuantizerExampleTest, RefusesParametersOutOfRange) {
  TrainOptions options;
  options.epochs = 1;
  EXPECT_THAT(
      TrainUnder(Recipe::Parse(R"(
        defaults { all { custom {
          factory: "examples.log8"
          parameters { fields { key: "steps" value { number_value: 100 } } }
        } } }
      )",
                               "steps"),
                 options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("custom.parameters.steps: got 100, want 1..64")));
}

}  // namespace
}  // namespace scalekeeper
