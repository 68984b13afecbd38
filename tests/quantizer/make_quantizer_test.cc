// MakeQuantizer: which quantizer a slot gets, from whose memory, in each phase.
#include <string>
#include <utility>

#include "amax/change_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "quantizer/quantizer.h"
#include "tests/quantizer/quantizer_testing.h"
#include "tests/testing/counting_allocator.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MakeQuantizerTest, ErrorsNameTheReason) {
  OneModule module(UnitRecipe());
  EXPECT_THAT(
      MakeQuantizer(module.state.get(), module.slots.input),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Freeze")));
  ASSERT_THAT(module.Freeze(), IsOk());
  EXPECT_THAT(
      MakeQuantizer(module.state.get(), SlotId{3}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slot: got 3")));
  EXPECT_THAT(
      MakeQuantizer(module.state.get(), SlotId{}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slot: got -1")));
  EXPECT_THAT(MakeQuantizer(nullptr, SlotId{0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("state")));
}

TEST(MakeQuantizerTest, FormatPerRole) {  // B13
  OneModule module = FrozenModule(
      "defaults { input { format: E4M3 delayed {} } weight { format: E4M3 "
      "delayed {} } grad { format: E5M2 delayed {} } }");
  TestTensor x = TestTensor::Row(DType::kF32, {2.0f});
  const std::pair<SlotId, float> cases[] = {{module.slots.input, 224.0f},
                                            {module.slots.weight, 224.0f},
                                            {module.slots.grad, 28672.0f}};
  for (const auto& [slot, scale] : cases) {
    auto quantizer = ValueOrDie(MakeQuantizer(module.state.get(), slot));
    EXPECT_EQ(ScaleInv(ValueOrDie(quantizer->Quantize(x.view(), kStream))),
              1.0f / scale);
    EXPECT_EQ(quantizer->name(), module.state->name(slot));
  }
}

TEST(MakeQuantizerTest, TensorsComeFromTheGivenAllocator) {
  OneModule module = FrozenModule(UnitRecipe());
  CountingAllocator allocator;
  auto quantizer = ValueOrDie(
      MakeQuantizer(module.state.get(), module.slots.input, kBoth, &allocator));
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f});
  QuantizedTensor q = ValueOrDie(quantizer->Quantize(x.view(), kStream));
  const int64_t after_first = allocator.allocations;
  EXPECT_GT(after_first, 0);
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), &q, nullptr, kStream), IsOk());
  EXPECT_EQ(allocator.allocations, after_first);  // nothing in a step
  allocator.dry = true;
  EXPECT_THAT(quantizer->Quantize(x.view(), kStream),
              StatusIs(absl::StatusCode::kResourceExhausted, "m/input: dry"));
}

TEST(SlotQuantizerTest, FollowsTheActivePhase) {
  Rig rig(
      "defaults { all { format: E4M3 delayed { first_step: UNIT } } } "
      "phase { from_step: 0 all { high_precision {} } } "
      "phase { from_step: 10 } "
      "phase { from_step: 20 all { format: E4M3 current {} } }");
  TestTensor x = TestTensor::Row(DType::kF32, {2.0f});
  ASSERT_THAT(rig.module.state->SetStep(0), IsOk());
  QuantizedTensor plain = rig.Quantize(x);
  EXPECT_EQ(plain.scaling, Scaling::kHighPrecision);
  EXPECT_EQ(plain.code_dtype(), DType::kBF16);

  ASSERT_THAT(rig.module.state->SetStep(10), IsOk());
  const QuantizedTensor delayed = rig.Quantize(x);
  EXPECT_EQ(delayed.scaling, Scaling::kDelayed);
  EXPECT_EQ(ScaleInv(delayed), 1.0f);
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(2.0f));
  EXPECT_THAT(rig.quantizer->QuantizeInto(x.view(), &plain, nullptr, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("phase")));
  EXPECT_THAT(Dequantized(*rig.quantizer, plain), ElementsAre(2.0f));

  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  ASSERT_THAT(rig.module.state->SetStep(20), IsOk());
  const QuantizedTensor current = rig.Quantize(x);
  EXPECT_EQ(current.scaling, Scaling::kCurrent);
  EXPECT_EQ(ScaleInv(current), 1.0f / 224.0f);
  EXPECT_EQ(ValueOrDie(rig.quantizer->Measure(x.view(), kStream)).scale,
            224.0f);
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(2.0f)) << "for the flag alone";
  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(
      ValueOrDie(rig.module.state->Scale(rig.module.slots.input, kStream)),
      224.0f)
      << "the delayed scale of the phase before";
}

TEST(SlotQuantizerTest, FollowsChangesOfTheState) {
  Rig rig(UnitRecipe(), kBoth);
  TestTensor x = TestTensor::Row(DType::kF32, {2.0f});
  QuantizedTensor before = rig.Quantize(x);
  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  ASSERT_THAT(ApplyRecipe(ParseRecipe("defaults { all { format: E4M3 current { "
                                      "power_2_scale: true } } }"),
                          ChangeOptions(), kStream, rig.module.state.get())
                  .status(),
              IsOk());
  const QuantizedTensor after = rig.Quantize(x);
  EXPECT_EQ(after.scaling, Scaling::kCurrent);
  EXPECT_EQ(ScaleInv(after), 1.0f / 128.0f);
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(2.0f)) << "into the slot of now";
  EXPECT_THAT(Dequantized(*rig.quantizer, before), ElementsAre(2.0f));
  EXPECT_THAT(
      rig.quantizer->QuantizeInto(x.view(), &before, nullptr, kStream),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("delayed")));

  ModuleChanges changes;
  changes.add.push_back({"n"});
  changes.remove.push_back("m");
  ASSERT_THAT(
      Refreeze(changes, ChangeOptions(), kStream, rig.module.state.get())
          .status(),
      IsOk());
  EXPECT_THAT(rig.quantizer->Quantize(x.view(), kStream),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("m/input: its module was removed")));
  EXPECT_THAT(Dequantized(*rig.quantizer, after), ElementsAre(2.0f));
}

}  // namespace
}  // namespace scalekeeper
