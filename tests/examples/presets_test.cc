// The training example's accuracy under every preset.
#include <string>

#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/examples/training_testing.h"

namespace scalekeeper {
namespace {

struct Preset {
  const char* name;
  double lost;            // accuracy below float32's, at most
  size_t shared_scales;   // at least: where there is one scale, the weights'
  size_t quantizers = 9;  // that quantize in the phase that the run begins in
};

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

INSTANTIATE_TEST_SUITE_P(
    Presets, PresetsTest,
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

}  // namespace
}  // namespace scalekeeper
