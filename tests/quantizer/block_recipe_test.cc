// Block scalings as a recipe gives them to a module's slots: flags, the step
// that random numbers depend on, amaxes of several ranks.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quantizer/quantizer.h"
#include "tests/amax/state_testing.h"
#include "tests/quantizer/block_testing.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Stream kStream;

std::string Defaults(const std::string& policy) {
  return "defaults { all { " + policy + " } }";
}

TEST(BlockRecipeTest, NonFiniteAmaxRaisesTheSlotsFlag) {
  for (const char* policy :
       {"rowwise {}", "block {}", "mxfp8 {}", "nvfp4 {}"}) {
    SCOPED_TRACE(policy);
    OneModule module(Defaults(policy));
    ASSERT_THAT(module.Freeze(), IsOk());
    const SlotView view = module.state->View(module.slots.grad);
    EXPECT_NE(view.amax, nullptr);
    EXPECT_EQ(view.scale, nullptr);
    const auto quantizer =
        ValueOrDie(MakeQuantizer(module.state.get(), module.slots.grad));
    TestTensor x = TestTensor::Row(DType::kF32,
                                   {1, std::numeric_limits<float>::infinity()});
    ASSERT_THAT(quantizer->Quantize(x.view(), kStream), IsOk());
    ASSERT_THAT(module.state->EndStep(kStream), IsOk());
    EXPECT_THAT(module.state->Check(kStream),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("m/grad")));
    EXPECT_THAT(module.state->NonFiniteSlots(kStream),
                IsOkAndHolds(ElementsAre("m/grad")));
    // The next step is clean: the word was cleared.
    ASSERT_THAT(module.state->ClearFlags(kStream), IsOk());
    ASSERT_THAT(module.state->EndStep(kStream), IsOk());
    EXPECT_THAT(module.state->Check(kStream), IsOk());
  }
}

TEST(BlockRecipeTest, StepWordFollowsTheStep) {
  OneModule module(Defaults("nvfp4 {}"));
  EXPECT_EQ(module.state->StepWord(), nullptr);
  ASSERT_THAT(module.state->SetStep(7), IsOk());
  ASSERT_THAT(module.Freeze(), IsOk());
  const int64_t* word = module.state->StepWord();
  EXPECT_EQ(*word, 7);
  ASSERT_THAT(module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(*word, 8);
  ASSERT_THAT(module.state->SetStep(100), IsOk());
  EXPECT_EQ(*word, 100);
  ASSERT_THAT(module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(*word, 101);
  ASSERT_THAT(module.state->RestorePrevious(kStream), IsOk());
  EXPECT_EQ(*word, 100);
}

TEST(BlockRecipeTest, StochasticRoundingDrawsAnewInEveryStep) {
  OneModule module(Defaults("nvfp4 { stochastic_rounding: true seed: 3 }"));
  ASSERT_THAT(module.Freeze(), IsOk());
  const auto quantizer =
      ValueOrDie(MakeQuantizer(module.state.get(), module.slots.grad));
  TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 64, 64);
  const auto codes = [&] {
    return UnpackedCodes(ValueOrDie(quantizer->Quantize(x.view(), kStream)),
                         /*column_wise=*/false);
  };
  const std::vector<uint8_t> first = codes();
  EXPECT_EQ(codes(), first);  // a recomputation
  ASSERT_THAT(module.state->EndStep(kStream), IsOk());
  EXPECT_NE(codes(), first);
  ASSERT_THAT(module.state->SetStep(0), IsOk());
  EXPECT_EQ(codes(), first);
}

TEST(BlockRecipeTest, EveryPresetQuantizesEveryRole) {
  for (const char* preset : {"rowwise", "blockwise", "mxfp8", "nvfp4"}) {
    SCOPED_TRACE(preset);
    std::unique_ptr<RecipeState> state =
        ValueOrDie(RecipeState::Create(ValueOrDie(Recipe::Load(preset)), {}));
    const ModuleSlots slots = ValueOrDie(state->AddModule("layers.0.fc1"));
    ASSERT_THAT(state->Freeze(), IsOk());
    for (const Role role : kRoles) {
      const auto quantizer = ValueOrDie(
          MakeQuantizer(state.get(), slots.slot(role), {true, true}));
      TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 160, 136);
      const QuantizedTensor q =
          ValueOrDie(quantizer->Quantize(x.view(), kStream));
      const Statistics s = ValueOrDie(quantizer->Measure(x.view(), kStream));
      EXPECT_GT(s.sqnr_db(), q.format == Format::kE2M1 ? 12 : 20);
      TestTensor back(DType::kF32, 160, 136);
      EXPECT_THAT(quantizer->Dequantize(q, back.view(), kStream), IsOk());
    }
  }
}

TEST(BlockRecipeTest, TensorAmaxIsThatOfTheGroup) {  // E6
  auto group = CreateInProcessCommunicators(2);
  std::vector<std::unique_ptr<RecipeState>> states;
  std::vector<ModuleSlots> slots;
  for (int rank = 0; rank < 2; ++rank) {
    RecipeStateOptions options;
    options.groups["tp"] = group[static_cast<size_t>(rank)].get();
    states.push_back(
        MakeState(Defaults("nvfp4 { amax_group: \"tp\" }"), options));
    slots.push_back(ValueOrDie(states.back()->AddModule("m")));
  }
  RunRanks(2, [&](int rank) {
    RecipeState* state = states[static_cast<size_t>(rank)].get();
    ASSERT_THAT(state->Freeze(), IsOk());
    const auto quantizer = ValueOrDie(MakeQuantizer(
        state, slots[static_cast<size_t>(rank)].input, {true, true}));
    TestTensor x = TestTensor::Row(DType::kF32, {1, rank == 0 ? 2.0f : 8.0f});
    const QuantizedTensor q =
        ValueOrDie(quantizer->Quantize(x.view(), kStream));
    EXPECT_EQ(*q.row_wise->scales.tensor_scale_inv, 1 / 336.0f);
    EXPECT_EQ(*q.column_wise->scales.tensor_scale_inv, 1 / 336.0f);
  });
}

TEST(BlockRecipeTest, RowAmaxesOfTheGroup) {
  auto group = CreateInProcessCommunicators(2);
  std::vector<std::unique_ptr<RecipeState>> states;
  std::vector<ModuleSlots> slots;
  for (int rank = 0; rank < 2; ++rank) {
    RecipeStateOptions options;
    options.groups["tp"] = group[static_cast<size_t>(rank)].get();
    states.push_back(
        MakeState(Defaults("rowwise { amax_group: \"tp\" }"), options));
    slots.push_back(ValueOrDie(states.back()->AddModule("m")));
  }
  RunRanks(2, [&](int rank) {
    RecipeState* state = states[static_cast<size_t>(rank)].get();
    ASSERT_THAT(state->Freeze(), IsOk());
    const auto quantizer = ValueOrDie(
        MakeQuantizer(state, slots[static_cast<size_t>(rank)].input));
    // Row 0: 1 and 7; row 1: 14 and 2.
    TestTensor x(DType::kF32, 2, 1);
    x.Set(0, 0, rank == 0 ? 1.0f : 7.0f);
    x.Set(1, 0, rank == 0 ? 14.0f : 2.0f);
    const QuantizedTensor q =
        ValueOrDie(quantizer->Quantize(x.view(), kStream));
    const float* scale_inv = q.row_wise->scale_inv.as<float>();
    EXPECT_EQ(scale_inv[0], 1 / 64.0f);
    EXPECT_EQ(scale_inv[1], 1 / 32.0f);
  });
}

}  // namespace
}  // namespace scalekeeper
