// The training example under every preset on a GPU: natively where the chip
// multiplies the preset's formats; elsewhere it is refused by name before the
// first step, and trained with `emulate`.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/device_memory.h"
#include "gtest/gtest.h"
#include "recipe/chip_check.h"
#include "recipe/recipe.h"
#include "tests/examples/presets_testing.h"
#include "tests/examples/training_testing.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

TrainOptions OnOneGpu() {
  TrainOptions options;
  options.device = DeviceKind::kCuda;
  options.ranks = 1;
  options.batch = 128;  // as many steps, and so phases, as four ranks take
  return options;
}

double Float32Accuracy() {
  static const double accuracy = TrainUnder(Float32(), OnOneGpu()).accuracy;
  return accuracy;
}

class PresetsCudaTest : public ::testing::TestWithParam<Preset> {
 protected:
  // Whether Matmul takes all of it on this GPU.
  static bool IsNative(const Recipe& recipe) {
    ChipCheckOptions options;
    const auto capability = ComputeCapability(Device::Cuda(0));
    EXPECT_THAT(capability, IsOk());
    options.compute_capability = *capability;
    const std::vector<std::string> modules = {"fc1", "fc2", "fc3"};
    const auto resolved = recipe.ResolveSome(modules);
    EXPECT_THAT(resolved, IsOk());
    return CheckChip(recipe.phase_from_steps(), modules, *resolved, options)
        .ok();
  }
  // The preset with `emulate` for every GEMM.
  static absl::StatusOr<Recipe> Emulated(const std::string& name) {
    const auto text = Recipe::PresetText(name);
    EXPECT_THAT(text, IsOk());
    std::string emulated = absl::StrReplaceAll(
        *text, {{"fast_accum: false }", "fast_accum: false emulate: true }"}});
    EXPECT_NE(emulated, *text) << "no matmul { } to add emulate to";
    return Recipe::Parse(emulated, absl::StrCat(name, " with emulate"));
  }
};

TEST_P(PresetsCudaTest, IsCloseToFloat32OrRefusedByName) {
  absl::StatusOr<Recipe> recipe = Recipe::Load(GetParam().name);
  ASSERT_THAT(recipe, IsOk());
  if (!IsNative(*recipe)) {
    EXPECT_THAT(Train(*recipe, LoadDigits(), OnOneGpu(), nullptr),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         ::testing::AllOf(HasSubstr("\"fc1\""),
                                          HasSubstr("does not multiply"),
                                          HasSubstr("emulate: true"))));
    recipe = Emulated(GetParam().name);
  }
  const TrainResult result = TrainUnder(recipe, OnOneGpu());
  RecordProperty("accuracy", absl::StrCat(result.accuracy));
  EXPECT_GE(Float32Accuracy(), 0.95);
  EXPECT_GE(result.accuracy, Float32Accuracy() - GetParam().lost);
  EXPECT_EQ(result.quantizers.size(), GetParam().quantizers);
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetsCudaTest,
                         ::testing::ValuesIn(Presets()), PresetName);

}  // namespace
}  // namespace scalekeeper
