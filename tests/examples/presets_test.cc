// The training example's accuracy under every preset.
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/examples/presets_testing.h"
#include "tests/examples/training_testing.h"

namespace scalekeeper {
namespace {

class PresetsTest : public ::testing::TestWithParam<Preset> {};

TEST_P(PresetsTest, IsCloseToFloat32AndRanksAgree) {
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

INSTANTIATE_TEST_SUITE_P(Presets, PresetsTest, ::testing::ValuesIn(Presets()),
                         PresetName);

}  // namespace
}  // namespace scalekeeper
