// What all quantizers have in common, on the host.
#include "quantizer/quantizer.h"

#include <cmath>
#include <limits>
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
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
