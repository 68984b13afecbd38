// The host kernels against the oracle: every dtype, format, layout and odd
// size.
#include "quantizer/kernels.h"

#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "tests/testing/oracle.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Format kFp8[] = {Format::kE4M3, Format::kE5M2};

oracle::Kind KindOf(Format format) {
  return format == Format::kE4M3 ? oracle::Kind::kE4M3 : oracle::Kind::kE5M2;
}

// Mostly ordinary values, with edge values strewn in.
std::function<float(int64_t, int64_t)> MixedValues(uint32_t seed) {
  return [generator = std::mt19937(seed)](int64_t, int64_t) mutable {
    constexpr float kEdges[] = {0.0f,    -0.0f,  kInf,     -kInf,   kNaN,
                                448.0f,  464.0f, 57344.0f, 0x1p-9f, 0x1p-10f,
                                -1e-30f, 3e4f,   0x1p-17f};
    if (generator() % 5 == 0) return kEdges[generator() % std::size(kEdges)];
    return std::ldexp(std::normal_distribution<float>(0, 1)(generator),
                      static_cast<int>(generator() % 24) - 16);
  };
}

struct CastResult {
  std::vector<uint8_t> row_wise;
  std::vector<uint8_t> column_wise;
  uint32_t amax = 0;
};

CastResult RunCast(const ConstTensorView& x, float scale, Format format) {
  CastResult result;
  result.row_wise.assign(x.size(), 0xAA);
  result.column_wise.assign(x.size(), 0xAA);
  kernels::CastOutput out;
  out.row_wise = result.row_wise.data();
  out.column_wise = result.column_wise.data();
  out.amax = &result.amax;
  EXPECT_THAT(
      kernels::Cast(x, kernels::GivenScale(&scale), format, out, {}, Stream()),
      IsOk());
  return result;
}

void ExpectCastIsRight(TestTensor& x, float scale, Format format) {
  const ConstTensorView view = x.view();
  const CastResult got = RunCast(view, scale, format);
  uint32_t amax = 0;
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) {
      const float value = x.at(r, c);
      amax = std::max(amax, oracle::BitsOfFloat(value) & 0x7FFFFFFFu);
      const uint32_t want = oracle::Encode(KindOf(format), value * scale);
      const uint32_t code = got.row_wise[r * view.cols + c];
      if (std::isnan(value)) {
        ASSERT_TRUE(oracle::IsNanCode(KindOf(format), code));
      } else {
        ASSERT_EQ(code, want) << value << " at " << r << ", " << c;
      }
      ASSERT_EQ(got.column_wise[c * view.rows + r], code);
    }
  }
  EXPECT_EQ(got.amax, amax);
  uint32_t amax_alone = 0;
  EXPECT_THAT(kernels::Amax(view, &amax_alone, {}, Stream()), IsOk());
  EXPECT_EQ(amax_alone, amax);
}

TEST(KernelsTest, CastAndAmaxOfEveryDTypeFormatLayoutAndShape) {
  const std::pair<int64_t, int64_t> shapes[] = {
      {1, 1}, {1, 15}, {15, 1}, {17, 127}, {127, 17}, {64, 64}, {129, 65}};
  uint32_t seed = 0;
  for (const auto& [rows, cols] : shapes) {
    for (const DType dtype : kHighPrecisionDTypes) {
      for (const Layout layout : kLayouts) {
        TestTensor x =
            TestTensor::Of(dtype, rows, cols, MixedValues(++seed), layout);
        for (const Format format : kFp8) {
          SCOPED_TRACE(Describe(x.view()));
          ExpectCastIsRight(x, 1.0f, format);
          ExpectCastIsRight(x, 149.33333f, format);
          ExpectCastIsRight(x, 0x1p-126f, format);
        }
      }
    }
  }
}

TEST(KernelsTest, CastOfAManyTileTensor) {
  TestTensor x = TestTensor::Of(DType::kBF16, 1000, 300, MixedValues(99));
  ExpectCastIsRight(x, 13.0f, Format::kE4M3);
}

TEST(KernelsTest, NoElementsWriteNothing) {  // G1
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{0, 256}, {256, 0}, {0, 0}}) {
    TestTensor x(DType::kF32, rows, cols);
    EXPECT_EQ(RunCast(x.view(), 1.0f, Format::kE4M3).amax, 0u);
    uint32_t amax = 7;
    EXPECT_THAT(kernels::Amax(x.view(), &amax, {}, Stream()), IsOk());
    EXPECT_EQ(amax, 7u);
  }
}

// A3, A4: each value in each of the lanes 0..15 and in arrays of 1..17.
TEST(KernelsTest, EdgeValuesInEveryLane) {
  const std::pair<float, uint8_t> rows[] = {{0x1p-9f, 0x01},
                                            {0x1p-10f, 0x00},
                                            {FloatFromBits(0x3A800001), 0x01},
                                            {1.5f * 0x1p-9f, 0x02},
                                            {2.5f * 0x1p-9f, 0x02},
                                            {7.5f * 0x1p-9f, 0x08},
                                            {FloatFromBits(0x3C6FFFFF), 0x07},
                                            {0x1p-6f, 0x08},
                                            {17.0f, 0x58},
                                            {19.0f, 0x5A},
                                            {0.1f, 0x1D},
                                            {-0.0f, 0x80},
                                            {-0x1p-10f, 0x80},
                                            {464.0f, 0x7E},
                                            {-kInf, 0xFE}};
  for (const auto& [value, code] : rows) {
    for (int64_t length = 1; length <= 17; ++length) {
      for (int64_t lane = 0; lane < length; ++lane) {
        std::vector<float> values(length, 1.0f);
        values[lane] = value;
        TestTensor x = TestTensor::Row(DType::kF32, values);
        const CastResult got = RunCast(x.view(), 1.0f, Format::kE4M3);
        for (int64_t i = 0; i < length; ++i) {
          ASSERT_EQ(got.row_wise[i], i == lane ? code : 0x38)
              << value << " lane " << lane << " of " << length;
        }
      }
    }
  }
}

TEST(KernelsTest, SaturationAndNaN) {  // A9
  TestTensor x = TestTensor::Row(DType::kF32, {500, kNaN, -500, 1});
  const CastResult got = RunCast(x.view(), 1.0f, Format::kE4M3);
  EXPECT_THAT(got.row_wise, ElementsAre(0x7E, 0x7F, 0xFE, 0x38));
  EXPECT_GT(got.amax, kFloatInfBits);
}

TEST(KernelsTest, WordsDecideOnTheDeviceWhetherToRun) {  // L10
  TestTensor x = TestTensor::Row(DType::kF32, {1, 2});
  const uint32_t zero = 0;
  const uint32_t one = 1;
  const float scale = 1.0f;
  const std::pair<kernels::RunIf, bool> cases[] = {{{}, true},
                                                   {{&zero}, true},
                                                   {{&one}, false},
                                                   {{nullptr, &zero}, false},
                                                   {{nullptr, &one}, true},
                                                   {{&one, &one}, false},
                                                   {{&zero, &zero}, false}};
  for (const auto& [run, runs] : cases) {
    uint8_t codes[2] = {0xAA, 0xAA};
    uint32_t amax = 0;
    kernels::CastOutput out;
    out.row_wise = codes;
    out.amax = &amax;
    EXPECT_THAT(kernels::Cast(x.view(), kernels::GivenScale(&scale),
                              Format::kE4M3, out, run, Stream()),
                IsOk());
    EXPECT_EQ(codes[0], runs ? 0x38 : 0xAA);
    EXPECT_EQ(amax, runs ? AmaxBits(2.0f) : 0u);
    kernels::AmaxScratch scratch;
    scratch.amax = 5;
    EXPECT_THAT(kernels::TensorAmax(x.view(), &scratch, run, Stream()), IsOk());
    EXPECT_EQ(scratch.amax, runs ? AmaxBits(2.0f) : 5u);
  }
}

TEST(KernelsTest, AmaxWordIsRaisedFromManyThreads) {
  uint32_t amax = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&amax, t] {
      for (int i = 0; i < 200; ++i) {
        TestTensor x = TestTensor::Row(DType::kF32,
                                       {static_cast<float>(t * 1000 + i), -1});
        ASSERT_THAT(kernels::Amax(x.view(), &amax, {}, Stream()), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(amax, AmaxBits(7199.0f));
}

TEST(KernelsTest, DecodeIsAFloat32ProductRoundedOnce) {
  std::vector<uint8_t> codes(256);
  for (int i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  const auto view = TensorView::Contiguous(codes.data(), DType::kUint8, 16, 16);
  const float scale_inv = 0.00669643f;
  for (const Format format : kFp8) {
    for (const DType dtype : kHighPrecisionDTypes) {
      for (const Layout layout : kLayouts) {
        TestTensor out(dtype, 16, 16, layout);
        ASSERT_THAT(
            kernels::Decode(view, format, &scale_inv, out.view(), Stream()),
            IsOk());
        for (int i = 0; i < 256; ++i) {
          const float product =
              static_cast<float>(oracle::Decode(KindOf(format), i)) * scale_inv;
          TestTensor want = TestTensor::Row(dtype, {product});
          const float got = out.at(i / 16, i % 16);
          if (std::isnan(product)) {
            ASSERT_TRUE(std::isnan(got));
          } else {
            ASSERT_EQ(got, want.at(0, 0)) << i;
          }
        }
      }
    }
  }
}

TEST(KernelsTest, ConvertBetweenAllDTypesAndLayouts) {
  for (const DType from : kHighPrecisionDTypes) {
    for (const DType to : kHighPrecisionDTypes) {
      for (const Layout layout : kLayouts) {
        TestTensor x = TestTensor::Of(from, 17, 65, MixedValues(3), layout);
        TestTensor out(to, 17, 65, Layout::kPadded);
        ASSERT_THAT(kernels::Convert(x.view(), out.view(), {}, Stream()),
                    IsOk());
        for (int64_t r = 0; r < 17; ++r) {
          for (int64_t c = 0; c < 65; ++c) {
            TestTensor want = TestTensor::Row(to, {x.at(r, c)});
            if (std::isnan(x.at(r, c))) {
              ASSERT_TRUE(std::isnan(out.at(r, c)));
            } else {
              ASSERT_EQ(out.at(r, c), want.at(0, 0));
            }
          }
        }
      }
    }
  }
}

// Statistics again, slowly, from the definition and the oracle.
Statistics BruteForce(const TestTensor& x, int64_t rows, int64_t cols,
                      Format format, float scale, float scale_inv) {
  Statistics s;
  const double max = format == Format::kE4M3 ? 448.0 : 57344.0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const float v = x.at(r, c);
      const uint32_t code = oracle::Encode(KindOf(format), v * scale);
      const double value = oracle::Decode(KindOf(format), code);
      s.count += 1;
      s.nonzero += !(v == 0);
      s.underflow += !(v == 0) && (code & 0x7F) == 0;
      s.saturation += std::abs(v * scale) > max;
      s.amax_bits = std::max(s.amax_bits, oracle::BitsOfFloat(v) & 0x7FFFFFFFu);
      if (!std::isfinite(v)) {
        s.non_finite += 1;
        continue;
      }
      const double back = static_cast<float>(value) * scale_inv;
      s.signal += static_cast<double>(v) * v;
      s.error += (v - back) * (v - back);
    }
  }
  return s;
}

TEST(KernelsTest, StatisticsMatchBruteForce) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const Layout layout : kLayouts) {
      for (const Format format : kFp8) {
        TestTensor x = TestTensor::Of(dtype, 65, 129, MixedValues(5), layout);
        const float scale = 31.0f;
        const float scale_inv = 1.0f / scale;
        const Statistics want =
            BruteForce(x, 65, 129, format, scale, scale_inv);
        const absl::StatusOr<Statistics> got = kernels::MeasureCast(
            x.view(), kernels::GivenScale(&scale), format, Stream());
        ASSERT_THAT(got, IsOk());
        EXPECT_EQ(got->count, want.count);
        EXPECT_EQ(got->nonzero, want.nonzero);
        EXPECT_EQ(got->underflow, want.underflow);
        EXPECT_EQ(got->saturation, want.saturation);
        EXPECT_EQ(got->non_finite, want.non_finite);
        EXPECT_EQ(got->amax_bits, want.amax_bits);
        EXPECT_DOUBLE_EQ(got->signal, want.signal);
        EXPECT_DOUBLE_EQ(got->error, want.error);
        EXPECT_EQ(got->scale, scale);
        EXPECT_EQ(got->scale_inv, scale_inv);
        EXPECT_GT(want.underflow, 0);
        EXPECT_GT(want.saturation, 0);
        EXPECT_GT(want.non_finite, 0);
      }
    }
  }
}

TEST(KernelsTest, StatisticsOfSavingInADType) {
  TestTensor x = TestTensor::Row(
      DType::kF32, {1.0f, 1e-9f, 70000.0f, kNaN, 1.0f + 0x1p-11f});
  absl::StatusOr<Statistics> s =
      kernels::MeasureConvert(x.view(), DType::kF16, Stream());
  ASSERT_THAT(s, IsOk());
  EXPECT_EQ(s->count, 5);
  EXPECT_EQ(s->nonzero, 5);
  EXPECT_EQ(s->underflow, 1);
  EXPECT_EQ(s->saturation, 1);
  EXPECT_EQ(s->non_finite, 1);
  EXPECT_EQ(s->sqnr_db(), -std::numeric_limits<double>::infinity());
  s = kernels::MeasureConvert(x.view(), DType::kF32, Stream());
  ASSERT_THAT(s, IsOk());
  EXPECT_EQ(s->saturation, 0);
  EXPECT_EQ(s->sqnr_db(), std::numeric_limits<double>::infinity());
}

TEST(KernelsTest, WithoutCudaTheBuildOptionIsNamed) {
  TestTensor x = TestTensor::Row(DType::kF32, {1});
  TensorView view = x.view();
  view.device = Device::Cuda(1);
  uint32_t amax = 0;
  EXPECT_THAT(
      kernels::Amax(view, &amax, {}, Stream()),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("--config=cuda")));
}

TEST(KernelsTest, PackedFormatsAreRefused) {
  TestTensor x = TestTensor::Row(DType::kF32, {1});
  const float scale = 1.0f;
  EXPECT_THAT(kernels::Cast(x.view(), kernels::GivenScale(&scale),
                            Format::kE2M1, {}, {}, Stream()),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("E2M1")));
}

}  // namespace
}  // namespace scalekeeper
