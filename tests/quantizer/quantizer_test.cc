// Quantizers as the recipe makes them, on the host.
#include "quantizer/quantizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/format.h"
#include "quantizer/inference_guard.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/oracle.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Usages kBoth = {true, true};
constexpr Stream kStream;

std::string UnitRecipe(const std::string& options = "amax_history_len: 4") {
  return DelayedRecipe(options + " first_step: UNIT");
}
std::string CurrentRecipe(const std::string& options = "") {
  return "defaults { all { format: E4M3 current { " + options + " } } }";
}
std::string HighPrecisionRecipe(const std::string& dtype) {
  return "defaults { all { high_precision { dtype: " + dtype + " } } }";
}

// A state of one module and the quantizer of its input slot.
struct Rig {
  explicit Rig(const std::string& recipe, Usages usages = kBoth)
      : module(FrozenModule(recipe)),
        quantizer(ValueOrDie(
            MakeQuantizer(module.state.get(), module.slots.input, usages))) {}

  QuantizedTensor Quantize(TestTensor& x) {
    return ValueOrDie(quantizer->Quantize(x.view(), kStream));
  }
  // Quantizes, so that amax is observed, and ends the step.
  void Step(float amax) {
    TestTensor x = TestTensor::Row(DType::kF32, {amax});
    Quantize(x);
    EXPECT_THAT(module.state->EndStep(kStream), IsOk());
  }
  uint32_t ObservedAmax() {
    return *module.state->View(module.slots.input).amax;
  }

  OneModule module;
  std::unique_ptr<Quantizer> quantizer;
};

std::vector<uint8_t> Codes(const QuantizedData& data) {
  const uint8_t* codes = data.codes.as<uint8_t>();
  return {codes, codes + data.codes.size()};
}
float ScaleInv(const QuantizedTensor& tensor) {
  return *tensor.row_wise->scale_inv.as<float>();
}
std::vector<float> Dequantized(const Quantizer& quantizer,
                               const QuantizedTensor& q) {
  TestTensor out(DType::kF32, q.rows, q.cols);
  EXPECT_THAT(quantizer.Dequantize(q, out.view(), kStream), IsOk());
  std::vector<float> values;
  for (int64_t r = 0; r < q.rows; ++r) {
    for (int64_t c = 0; c < q.cols; ++c) values.push_back(out.at(r, c));
  }
  return values;
}

float Wave(int64_t r, int64_t c) {
  return std::sin(static_cast<float>(37 * r + 11 * c)) * 3;
}

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

TEST(HighPrecisionQuantizerTest, KeepsTheValueAndHasNoScale) {  // B11
  for (const DType dtype : kHighPrecisionDTypes) {
    const std::string name = dtype == DType::kF32    ? "FP32"
                             : dtype == DType::kBF16 ? "BF16"
                                                     : "FP16";
    Rig rig(HighPrecisionRecipe(name));
    TestTensor x = TestTensor::Row(DType::kF32, {1.0f / 512, -3.14159f});
    const QuantizedTensor q = rig.Quantize(x);
    EXPECT_EQ(q.code_dtype(), dtype);
    EXPECT_EQ(q.row_wise->codes.size(), 2 * SizeOf(dtype));
    EXPECT_EQ(q.row_wise->scale_inv.size(), 0u);
    TestTensor want = TestTensor::Row(dtype, {1.0f / 512, -3.14159f});
    EXPECT_THAT(Dequantized(*rig.quantizer, q),
                ElementsAre(want.at(0, 0), want.at(0, 1)));
    EXPECT_EQ(rig.module.state->View(rig.module.slots.input).amax, nullptr);
    EXPECT_THAT(rig.quantizer->Calibrate(x.view(), kStream), IsOk());
  }
}

TEST(QuantizerTest, ColumnWiseIsTheExactTransposeAndReadsBackAlone) {
  for (const std::string& recipe :
       {UnitRecipe(), CurrentRecipe(), HighPrecisionRecipe("FP16")}) {
    Rig rig(recipe);
    for (const Layout layout : kLayouts) {
      TestTensor x = TestTensor::Of(DType::kF32, 17, 129, Wave, layout);
      const QuantizedTensor both = rig.Quantize(x);
      const size_t bytes = SizeOf(both.code_dtype());
      const std::vector<uint8_t> rows = Codes(*both.row_wise);
      const std::vector<uint8_t> columns = Codes(*both.column_wise);
      ASSERT_EQ(rows.size(), 17 * 129 * bytes);
      for (size_t r = 0; r < 17; ++r) {
        for (size_t c = 0; c < 129; ++c) {
          for (size_t b = 0; b < bytes; ++b) {
            ASSERT_EQ(rows[(r * 129 + c) * bytes + b],
                      columns[(c * 17 + r) * bytes + b]);
          }
        }
      }
      rig.quantizer->set_usages({false, true});
      const QuantizedTensor column = rig.Quantize(x);
      EXPECT_FALSE(column.row_wise.has_value());
      EXPECT_EQ(Dequantized(*rig.quantizer, column),
                Dequantized(*rig.quantizer, both));
      rig.quantizer->set_usages(kBoth);
    }
  }
}

TEST(QuantizerTest, StridedViewsGiveTheBytesOfAContiguousCopy) {
  for (const std::string& recipe : {UnitRecipe(), CurrentRecipe()}) {
    for (const DType dtype : kHighPrecisionDTypes) {
      Rig rig(recipe);
      TestTensor contiguous = TestTensor::Of(dtype, 65, 33, Wave);
      const QuantizedTensor want = rig.Quantize(contiguous);
      for (const Layout layout : kLayouts) {
        TestTensor x = TestTensor::Of(dtype, 65, 33, Wave, layout);
        const QuantizedTensor got = rig.Quantize(x);
        EXPECT_EQ(Codes(*got.row_wise), Codes(*want.row_wise));
        EXPECT_EQ(Codes(*got.column_wise), Codes(*want.column_wise));
        EXPECT_EQ(ScaleInv(got), ScaleInv(want));
        TestTensor out(dtype, 65, 33, layout);
        EXPECT_THAT(rig.quantizer->Dequantize(got, out.view(), kStream),
                    IsOk());
        EXPECT_EQ(out.at(64, 32), [&] {
          TestTensor back(dtype, 65, 33);
          EXPECT_THAT(rig.quantizer->Dequantize(want, back.view(), kStream),
                      IsOk());
          return back.at(64, 32);
        }());
      }
    }
  }
}

TEST(QuantizerTest, ZeroElementsWorkAndObserveNothing) {  // G1
  for (const std::string& recipe :
       {UnitRecipe(), DelayedRecipe(""), CurrentRecipe(),
        HighPrecisionRecipe("BF16")}) {
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{0, 256}, {256, 0}, {0, 0}}) {
      Rig rig(recipe);
      TensorView x;
      x.rows = rows;
      x.cols = cols;
      const absl::StatusOr<QuantizedTensor> q =
          rig.quantizer->Quantize(x, kStream);
      ASSERT_THAT(q, IsOk());
      EXPECT_EQ(q->rows, rows);
      EXPECT_EQ(q->row_wise->codes.size(), 0u);
      if (q->scaling != Scaling::kHighPrecision) {
        EXPECT_EQ(ScaleInv(*q), 1.0f);
      }
      EXPECT_THAT(rig.quantizer->Dequantize(*q, x, kStream), IsOk());
      EXPECT_THAT(rig.quantizer->Calibrate(x, kStream), IsOk());
      if (q->scaling == Scaling::kDelayed) {
        EXPECT_EQ(rig.ObservedAmax(), 0u);
      }
      absl::StatusOr<Statistics> s = rig.quantizer->Measure(x, kStream);
      ASSERT_THAT(s, IsOk());
      EXPECT_EQ(s->count, 0);
    }
  }
}

TEST(QuantizerTest, FreshTensorsHaveScaleOne) {  // B14
  Rig rig(UnitRecipe());
  const QuantizedTensor q = ValueOrDie(rig.quantizer->MakeEmpty(2, 3));
  EXPECT_EQ(ScaleInv(q), 1.0f);
  EXPECT_EQ(*q.column_wise->scale_inv.as<float>(), 1.0f);
}

TEST(QuantizerTest, InferenceMakesRowWiseOnlyAndGivesBackTheRest) {
  Rig rig(UnitRecipe());
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f, 2.0f});
  QuantizedTensor kept = rig.Quantize(x);
  {
    InferenceGuard inference;
    const InferenceGuard nested;
    EXPECT_FALSE(rig.Quantize(x).column_wise.has_value());
    // A tensor that has both keeps both in step.
    TestTensor y = TestTensor::Row(DType::kF32, {3.0f, 4.0f});
    EXPECT_THAT(rig.quantizer->QuantizeInto(y.view(), &kept, nullptr, kStream),
                IsOk());
    EXPECT_EQ(Codes(*kept.row_wise), Codes(*kept.column_wise));
    std::thread other([] { EXPECT_FALSE(InferenceGuard::active()); });
    other.join();
    rig.quantizer->set_usages({false, true});
    EXPECT_TRUE(rig.Quantize(x).column_wise.has_value());
    rig.quantizer->set_usages(kBoth);
  }
  EXPECT_FALSE(InferenceGuard::active());
  EXPECT_EQ(rig.Quantize(x).usages(), kBoth);
}

TEST(QuantizerTest, MeasureSaysWhatQuantizeWouldDo) {
  for (const std::string& recipe :
       {UnitRecipe(), DelayedRecipe("margin: 1"), CurrentRecipe(),
        CurrentRecipe("power_2_scale: true"), HighPrecisionRecipe("FP16")}) {
    Rig rig(recipe);
    TestTensor x = TestTensor::Of(DType::kF32, 33, 65, Wave);
    const Statistics s = ValueOrDie(rig.quantizer->Measure(x.view(), kStream));
    if (rig.module.state->policy(rig.module.slots.input).scaling ==
        Scaling::kDelayed) {
      EXPECT_EQ(rig.ObservedAmax(), 0u);
    }
    const QuantizedTensor q = rig.Quantize(x);
    if (q.scaling != Scaling::kHighPrecision) {
      EXPECT_EQ(s.scale_inv, ScaleInv(q));
    }
    const std::vector<float> back = Dequantized(*rig.quantizer, q);
    double signal = 0;
    double error = 0;
    for (int64_t i = 0; i < 33 * 65; ++i) {
      const double v = x.at(i / 65, i % 65);
      signal += v * v;
      error += (v - back[i]) * (v - back[i]);
    }
    EXPECT_EQ(s.count, 33 * 65);
    EXPECT_NEAR(s.sqnr_db(), 10 * std::log10(signal / error), 0.01);
  }
}

TEST(QuantizerTest, MeasureKnowsStaleness) {
  Rig rig(UnitRecipe("margin: 3"));
  rig.Step(8.0f);
  TestTensor x = TestTensor::Row(DType::kF32, {12.0f});
  const Statistics s = ValueOrDie(rig.quantizer->Measure(x.view(), kStream));
  EXPECT_DOUBLE_EQ(s.staleness(), 1.5);
}

TEST(QuantizerTest, BadArgumentsAreNamed) {
  Rig rig(UnitRecipe());
  const auto invalid = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f, 2.0f});
  TensorView null = x.view();
  null.data = nullptr;
  EXPECT_THAT(rig.quantizer->Quantize(null, kStream),
              invalid("x: got a null pointer for 1x2"));
  TensorView bytes = x.view();
  bytes.dtype = DType::kUint8;
  EXPECT_THAT(rig.quantizer->Quantize(bytes, kStream),
              invalid("x: got dtype uint8, want float32, bfloat16 or float16"));
  EXPECT_THAT(rig.quantizer->Calibrate(bytes, kStream), invalid("uint8"));
  EXPECT_THAT(rig.quantizer->Measure(bytes, kStream), invalid("uint8"));
  TensorView negative = x.view();
  negative.rows = -1;
  EXPECT_THAT(rig.quantizer->Quantize(negative, kStream),
              invalid("x: got shape -1x2"));
  TensorView elsewhere = x.view();
  elsewhere.device = Device::Cuda(0);
  EXPECT_THAT(rig.quantizer->Quantize(elsewhere, kStream),
              invalid("x: got device cuda:0, want host"));

  QuantizedTensor q = rig.Quantize(x);
  TestTensor longer = TestTensor::Row(DType::kF32, {1, 2, 3});
  EXPECT_THAT(rig.quantizer->QuantizeInto(longer.view(), &q, nullptr, kStream),
              invalid("out: got shape 1x2, want 1x3"));
  EXPECT_THAT(rig.quantizer->QuantizeInto(x.view(), nullptr, nullptr, kStream),
              invalid("out: got a null pointer"));
  QuantizedTensor nothing;
  nothing.rows = 1;
  nothing.cols = 2;
  EXPECT_THAT(rig.quantizer->QuantizeInto(x.view(), &nothing, nullptr, kStream),
              invalid("out: got a tensor without"));
  EXPECT_THAT(rig.quantizer->Dequantize(q, longer.view(), kStream),
              invalid("out: got shape 1x3, want 1x2"));
  EXPECT_THAT(rig.quantizer->Dequantize(q, bytes, kStream),
              invalid("out: got dtype uint8"));
  TensorView overlapping = longer.view();
  overlapping.cols = 2;
  overlapping.col_stride = 0;
  EXPECT_THAT(rig.quantizer->Dequantize(q, overlapping, kStream),
              invalid("overlap"));
  QuantizedTensor cut = rig.Quantize(x);
  cut.cols = 3;
  EXPECT_THAT(rig.quantizer->Dequantize(cut, longer.view(), kStream),
              invalid("q.row_wise.codes: got 2 bytes, want 3"));
  EXPECT_THAT(rig.quantizer->MakeEmpty(-1, 4), invalid("shape: got -1x4"));
  EXPECT_THAT(rig.quantizer->MakeEmpty(int64_t{1} << 40, int64_t{1} << 40),
              invalid("at most 2^48 elements"));
  rig.quantizer->set_usages({false, false});
  EXPECT_THAT(rig.quantizer->Quantize(x.view(), kStream),
              invalid("usages: got none"));
  EXPECT_EQ(rig.ObservedAmax(), AmaxBits(2.0f));  // of the good calls only
}

TEST(QuantizerTest, TensorsOfAnotherPolicyAreRefused) {
  Rig delayed(UnitRecipe());
  Rig current(CurrentRecipe());
  Rig e5m2(
      "defaults { all { format: E4M3 delayed {} } "
      "input { format: E5M2 delayed {} } }");
  Rig bf16(HighPrecisionRecipe("BF16"));
  Rig fp16(HighPrecisionRecipe("FP16"));
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f});
  QuantizedTensor q = delayed.Quantize(x);
  QuantizedTensor plain = bf16.Quantize(x);
  const auto refused = [&](Rig& rig, QuantizedTensor& out,
                           const std::string& want) {
    EXPECT_THAT(rig.quantizer->QuantizeInto(x.view(), &out, nullptr, kStream),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("out: got"), HasSubstr(want))));
  };
  refused(current, q, "want current E4M3");
  refused(e5m2, q, "want delayed E5M2");
  refused(bf16, q, "want high_precision bfloat16");
  refused(fp16, plain, "want high_precision float16");
  refused(delayed, plain, "want delayed E4M3");
}

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

// Counts what it hands out, and can run dry.
class CountingAllocator : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (dry) return absl::ResourceExhaustedError("dry");
    ++allocations;
    return HostAllocator()->Allocate(bytes);
  }
  void Deallocate(void* data, size_t bytes) override {
    HostAllocator()->Deallocate(data, bytes);
  }
  Device device() const override { return Device::Host(); }

  int allocations = 0;
  bool dry = false;
};

TEST(MakeQuantizerTest, TensorsComeFromTheGivenAllocator) {
  OneModule module = FrozenModule(UnitRecipe());
  CountingAllocator allocator;
  auto quantizer = ValueOrDie(
      MakeQuantizer(module.state.get(), module.slots.input, kBoth, &allocator));
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f});
  QuantizedTensor q = ValueOrDie(quantizer->Quantize(x.view(), kStream));
  const int after_first = allocator.allocations;
  EXPECT_GT(after_first, 0);
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), &q, nullptr, kStream), IsOk());
  EXPECT_EQ(allocator.allocations, after_first);  // nothing in a step
  allocator.dry = true;
  EXPECT_THAT(quantizer->Quantize(x.view(), kStream),
              StatusIs(absl::StatusCode::kResourceExhausted, "dry"));
}

TEST(PhasedQuantizerTest, FollowsTheActivePhase) {
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

// The least that a program's own quantizer can be.
class MinimalQuantizer : public Quantizer {
 public:
  MinimalQuantizer() : Quantizer("mine", Device::Host(), {}, nullptr) {}

 protected:
  absl::Status QuantizeImpl(const Call&, QuantizedTensor*) override {
    return absl::OkStatus();
  }
};

TEST(CustomQuantizerTest, WhatASubclassLacksIsUnimplemented) {
  MinimalQuantizer quantizer;
  TestTensor x = TestTensor::Row(DType::kF32, {1.0f});
  const auto unimplemented = [](const std::string& call) {
    return StatusIs(absl::StatusCode::kUnimplemented,
                    HasSubstr("mine: this quantizer has no " + call));
  };
  const QuantizedTensor q = ValueOrDie(quantizer.Quantize(x.view(), kStream));
  EXPECT_EQ(q.scaling, Scaling::kCustom);
  EXPECT_EQ(q.row_wise->codes.size(), 1u);
  TestTensor out(DType::kF32, 1, 1);
  EXPECT_THAT(quantizer.Dequantize(q, out.view(), kStream),
              unimplemented("Dequantize"));
  quantizer.set_usages(kBoth);
  EXPECT_THAT(quantizer.Quantize(x.view(), kStream),
              unimplemented("column-wise usage"));
  EXPECT_THAT(quantizer.Calibrate(x.view(), kStream),
              unimplemented("Calibrate"));
  EXPECT_THAT(quantizer.Measure(x.view(), kStream), unimplemented("Measure"));
}

}  // namespace
}  // namespace scalekeeper
