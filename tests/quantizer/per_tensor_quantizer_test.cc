// Delayed and current scaling as a recipe asks for them, on the host.
#include "quantizer/per_tensor_quantizer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/format.h"
#include "quantizer/inference_guard.h"
#include "tests/quantizer/quantizer_testing.h"
#include "tests/testing/oracle.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DelayedQuantizerTest, UsesTheSlotsScaleAndObserves) {
  Rig rig(UnitRecipe());
  rig.Step(8.0f);
  EXPECT_EQ(rig.module.Scale(), 56.0f);
  TestTensor x = TestTensor::Row(DType::kBF16, {1.0f, -2.0f, 100.0f});
  const QuantizedTensor q = rig.Quantize(x);
  EXPECT_THAT(Codes(*q.row_wise),
              ElementsAre(EncodeE4M3(56.0f), EncodeE4M3(-112.0f), 0x7E));
  EXPECT_EQ(ScaleInv(q), 1.0f / 56.0f);
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(100.0f));
  EXPECT_EQ(rig.module.Scale(), 56.0f);  // until EndStep
}

TEST(DelayedQuantizerTest, ZeroTensorKeepsScaleAndWindow) {  // B1 (b)
  Rig rig(UnitRecipe());
  rig.Step(8.0f);
  TestTensor x = TestTensor::Of(DType::kF32, 1, 128,
                                [](int64_t, int64_t) { return 0.0f; });
  const QuantizedTensor q = rig.Quantize(x);
  EXPECT_EQ(Codes(*q.row_wise), std::vector<uint8_t>(128, 0));
  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(rig.module.Scale(), 56.0f);
  EXPECT_EQ(rig.module.Window(), AsBits({8.0f}));
}

TEST(DelayedQuantizerTest, NonFiniteAmaxKeepsScaleAndRaisesTheFlag) {  // B3
  for (const std::string algorithm : {"MAX", "MOST_RECENT"}) {
    Rig rig(UnitRecipe("amax_history_len: 4 amax_compute_algo: " + algorithm));
    rig.Step(8.0f);
    for (const float bad : {kInf, kNaN}) {
      rig.Step(bad);
      EXPECT_EQ(rig.module.Scale(), 56.0f);
      EXPECT_EQ(rig.module.Window(), AsBits({8.0f}));
      EXPECT_THAT(
          rig.module.state->Check(kStream),
          StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("m/input")));
      EXPECT_THAT(rig.module.state->ClearFlags(kStream), IsOk());
    }
  }
}

TEST(DelayedQuantizerTest, NaNInEveryPosition) {  // C10
  std::vector<int> order = {0, 1, 2};
  const float values[] = {1.0f, kNaN, 2.0f};
  do {
    Rig rig(UnitRecipe());
    rig.Step(2.0f);
    TestTensor x = TestTensor::Row(
        DType::kF32, {values[order[0]], values[order[1]], values[order[2]]});
    const std::vector<uint8_t> codes = Codes(*rig.Quantize(x).row_wise);
    for (int i = 0; i < 3; ++i) {
      if (order[i] == 1) {
        EXPECT_EQ(codes[i] & 0x7F, 0x7F);
      } else {
        EXPECT_EQ(codes[i], EncodeE4M3(224.0f * values[order[i]]));
      }
    }
    EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
    EXPECT_EQ(rig.module.Scale(), 224.0f);
    EXPECT_EQ(rig.module.state->Check(kStream).code(),
              absl::StatusCode::kOutOfRange);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(DelayedQuantizerTest, FirstStepMeasuresTheTensor) {  // L12
  TestTensor x = TestTensor::Row(DType::kF32, {0.0009f, 0.005f, -0.02f});
  Rig measured(DelayedRecipe("first_step: MEASURE"));
  const QuantizedTensor q = measured.Quantize(x);
  EXPECT_FLOAT_EQ(1.0f / ScaleInv(q), 22400.0f);
  EXPECT_THAT(Codes(*q.row_wise), ElementsAre(0x5A, 0x6E, 0xFE));
  EXPECT_EQ(measured.ObservedAmax(), AmaxBits(0.02f));

  Rig unit(DelayedRecipe("first_step: UNIT"));
  EXPECT_THAT(Codes(*unit.Quantize(x).row_wise), ElementsAre(0x00, 0x03, 0x8A));
}

TEST(DelayedQuantizerTest, MeasuringEndsWithTheFirstUpdateAndUsesTheMargin) {
  Rig rig(DelayedRecipe("margin: 2"));
  TestTensor one = TestTensor::Row(DType::kF32, {1.0f});
  TestTensor four = TestTensor::Row(DType::kF32, {4.0f});
  EXPECT_EQ(ScaleInv(rig.Quantize(one)), 1.0f / 112.0f);
  EXPECT_EQ(ScaleInv(rig.Quantize(four)), 1.0f / 28.0f);
  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(ScaleInv(rig.Quantize(one)), 1.0f / 28.0f);
}

TEST(DelayedQuantizerTest, MeasuringZeroOrNonFiniteUsesTheCurrentScale) {
  for (const float value : {0.0f, kInf, kNaN}) {
    Rig rig(DelayedRecipe(""));
    TestTensor x = TestTensor::Row(DType::kF32, {value});
    EXPECT_EQ(ScaleInv(rig.Quantize(x)), 1.0f) << value;
  }
}

TEST(DelayedQuantizerTest, ScaleInvBelongsToTheData) {  // L1, L2, L5
  Rig rig(UnitRecipe("amax_history_len: 1"));
  rig.Step(1.0f);
  TestTensor one = TestTensor::Row(DType::kF32, {1.0f});
  const QuantizedTensor t1 = rig.Quantize(one);
  EXPECT_THAT(Codes(*t1.row_wise), ElementsAre(0x7E));
  rig.Step(8.0f);
  EXPECT_EQ(rig.module.Scale(), 56.0f);
  const QuantizedTensor t2 = rig.Quantize(one);
  EXPECT_EQ(ScaleInv(t1), 1.0f / 448.0f);
  EXPECT_EQ(ScaleInv(t2), 1.0f / 56.0f);
  EXPECT_THAT(Dequantized(*rig.quantizer, t1), ElementsAre(1.0f));
  EXPECT_THAT(Dequantized(*rig.quantizer, t2), ElementsAre(1.0f));
}

TEST(DelayedQuantizerTest, RecomputationInTheSameStepGivesTheSameCodes) {
  Rig rig(UnitRecipe());
  rig.Step(1.0f);
  TestTensor x = TestTensor::Row(DType::kF32, {0.7f});
  const QuantizedTensor first = rig.Quantize(x);
  const QuantizedTensor again = rig.Quantize(x);
  EXPECT_THAT(Codes(*first.row_wise), ElementsAre(0x7A));
  EXPECT_EQ(Codes(*first.row_wise), Codes(*again.row_wise));
  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(rig.module.Window(), AsBits({1.0f, 0.7f}));  // one roll
}

TEST(DelayedQuantizerTest, EvaluationChangesNoState) {  // L7
  for (const bool guard : {false, true}) {
    Rig rig(UnitRecipe("amax_history_len: 2"));
    rig.Step(8.0f);
    TestTensor x = TestTensor::Row(DType::kF32, {100.0f});
    {
      std::unique_ptr<InferenceGuard> inference;
      if (guard) inference = std::make_unique<InferenceGuard>();
      if (!guard) rig.quantizer->set_observing(false);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ScaleInv(rig.Quantize(x)), 1.0f / 56.0f);
        EXPECT_THAT(rig.quantizer->Calibrate(x.view(), kStream), IsOk());
      }
      rig.quantizer->set_observing(true);
    }
    EXPECT_EQ(rig.ObservedAmax(), 0u);
    rig.Step(1.0f);
    EXPECT_EQ(rig.module.Scale(), 56.0f);
    EXPECT_EQ(rig.module.Window(), AsBits({8.0f, 1.0f}));
  }
}

TEST(DelayedQuantizerTest, CalibrateObservesOnly) {
  Rig rig(UnitRecipe());
  TestTensor x = TestTensor::Row(DType::kF16, {0.5f, -8.0f});
  EXPECT_THAT(rig.quantizer->Calibrate(x.view(), kStream), IsOk());
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(8.0f));
}

TEST(CurrentQuantizerTest, AmaxOfWhatIsStoredNotOfFloat32) {  // B12
  Rig rig(CurrentRecipe());
  TestTensor x = TestTensor::Row(DType::kBF16, {1.005f});
  const QuantizedTensor q = rig.Quantize(x);
  const float scale = 448.0f / 1.0078125f;
  EXPECT_FLOAT_EQ(scale, 444.52713f);
  EXPECT_EQ(ScaleInv(q), 1.0f / scale);
  EXPECT_THAT(Codes(*q.row_wise), ElementsAre(0x7E));
}

TEST(DelayedQuantizerTest, NoopFlagLeavesEverything) {  // L10
  Rig rig(UnitRecipe());
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f, 2.0f});
  QuantizedTensor q = rig.Quantize(x);
  rig.Step(8.0f);
  const std::vector<uint8_t> codes = Codes(*q.row_wise);
  TestTensor y = TestTensor::Row(DType::kF32, {5.0f, 6.0f});
  uint32_t flag = 1;
  EXPECT_THAT(rig.quantizer->QuantizeInto(y.view(), &q, &flag, kStream),
              IsOk());
  EXPECT_EQ(Codes(*q.row_wise), codes);
  EXPECT_EQ(ScaleInv(q), 1.0f);
  EXPECT_EQ(rig.ObservedAmax(), 0u);
  flag = 0;
  EXPECT_THAT(rig.quantizer->QuantizeInto(y.view(), &q, &flag, kStream),
              IsOk());
  EXPECT_EQ(ScaleInv(q), 1.0f / 56.0f);
  EXPECT_EQ(*q.column_wise->scale_inv.as<float>(), 1.0f / 56.0f);
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(6.0f));
}

TEST(DelayedQuantizerTest, ManyThreadsObserveOneSlot) {
  Rig rig(UnitRecipe());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&rig, t] {
      for (int i = 0; i < 100; ++i) {
        TestTensor x = TestTensor::Row(DType::kF32,
                                       {static_cast<float>(t * 100 + i), 0.0f});
        ASSERT_THAT(rig.quantizer->Quantize(x.view(), kStream), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(799.0f));
}

TEST(CurrentQuantizerTest, ScalesByTheTensorsOwnAmax) {  // B1 (a), B3, B10
  struct {
    std::vector<float> x;
    float scale;
  } const rows[] = {{{0.0f, 0.0f}, 1.0f},
                    {{1.0f, kInf}, 1.0f},
                    {{1.0f, kNaN}, 1.0f},
                    {{3.0f, -1.0f}, 448.0f / 3.0f},
                    {{448.0f, 2.0f}, 1.0f}};
  for (const auto& row : rows) {
    Rig rig(CurrentRecipe());
    TestTensor x = TestTensor::Row(DType::kF32, row.x);
    const QuantizedTensor q = rig.Quantize(x);
    EXPECT_EQ(ScaleInv(q), 1.0f / row.scale);
    for (size_t i = 0; i < row.x.size(); ++i) {
      if (std::isnan(row.x[i])) continue;
      EXPECT_EQ(Codes(*q.row_wise)[i],
                oracle::Encode(oracle::Kind::kE4M3, row.x[i] * row.scale));
    }
  }
  Rig rig(CurrentRecipe());
  TestTensor x = TestTensor::Row(DType::kBF16, {0.01f});
  const QuantizedTensor q = rig.Quantize(x);
  EXPECT_NEAR(ScaleInv(q), 2.23e-5f, 1e-7f);
  EXPECT_THAT(Codes(*q.row_wise), ElementsAre(0x7E));
}

TEST(CurrentQuantizerTest, OptionsOfThePolicy) {
  TestTensor three = TestTensor::Row(DType::kF32, {3.0f});
  Rig pow2(CurrentRecipe("power_2_scale: true"));
  EXPECT_EQ(ScaleInv(pow2.Quantize(three)), 0x1p-7f);
  TestTensor tiny = TestTensor::Row(DType::kF32, {1e-6f});
  Rig epsilon(CurrentRecipe("amax_epsilon: 1e-4"));
  EXPECT_EQ(ScaleInv(epsilon.Quantize(tiny)), FloatFromBits(0x346FACAD));
}

TEST(CurrentQuantizerTest, NonFiniteTensorsRaiseTheFlagOfTheSlot) {  // B3
  Rig rig(CurrentRecipe());
  TestTensor good = TestTensor::Row(DType::kF32, {1.0f, 8.0f});
  rig.Quantize(good);
  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  EXPECT_THAT(rig.module.state->Check(kStream), IsOk());
  TestTensor bad = TestTensor::Row(DType::kF32, {1.0f, kNaN});
  EXPECT_EQ(ScaleInv(rig.Quantize(bad)), 1.0f);
  EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
  EXPECT_THAT(rig.module.state->Check(kStream),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("input")));
}

}  // namespace
}  // namespace scalekeeper
