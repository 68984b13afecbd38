// The tables of the scale formulas, in bits, and the formulas again in exact or
// wider arithmetic.
#include "numerics/scale.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "numerics/format.h"
#include "tests/testing/float_walk.h"
#include "tests/testing/oracle.h"

namespace scalekeeper {
namespace {

constexpr float kE4M3Max = 448.0f;
constexpr float kE5M2Max = 57344.0f;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

uint32_t Delayed(float amax, int margin = 0, float max = kE4M3Max) {
  return BitsFromFloat(ScaleFromAmax(amax, max, margin));
}

TEST(DelayedScaleTest, TableOfTheDefinition) {  // B5
  EXPECT_EQ(Delayed(1.0f), 0x43E00000u);
  EXPECT_EQ(Delayed(3.0f), 0x43155555u);
  EXPECT_EQ(Delayed(3.25f), 0x4309D89Eu);
  EXPECT_EQ(Delayed(1.0f, 1), BitsFromFloat(224.0f));
  EXPECT_EQ(Delayed(1.0f, 2), BitsFromFloat(112.0f));
  EXPECT_EQ(Delayed(0.75f, 2), 0x43155555u);
  EXPECT_EQ(Delayed(2.0f, 0, kE5M2Max), BitsFromFloat(28672.0f));
}

TEST(DelayedScaleTest, OverflowingQuotientGivesFloatMaxForEveryMargin) {
  const uint32_t float_max = BitsFromFloat(kFloatMax);
  for (const int margin : {0, 1, 31, 32}) {
    for (const uint32_t amax : {0x03DFFFFFu, 0x00800000u, 0x00000001u}) {
      EXPECT_EQ(Delayed(FloatFromBits(amax), margin), float_max) << amax;
    }
  }
  EXPECT_EQ(Delayed(FloatFromBits(0x03E00001u)), float_max);
  EXPECT_LT(Delayed(FloatFromBits(0x03E00002u)), float_max);
}

TEST(DelayedScaleTest, NeverBelowTheSmallestNormal) {
  EXPECT_EQ(Delayed(kFloatMax, 0), BitsFromFloat(kE4M3Max / kFloatMax));
  EXPECT_EQ(Delayed(kFloatMax, 32), BitsFromFloat(0x1p-126f));
  EXPECT_EQ(BitsFromFloat(ScaleInverse(0x1p-126f)), BitsFromFloat(0x1p126f));
}

// Every amax of the float walk, against division in double. The quotient of two
// float32 rounds the same way through double (53 >= 2 * 24 + 2).
TEST(DelayedScaleTest, MatchesDivisionInDouble) {
  ForEachSteppedFloat([](uint32_t bits) {
    const float amax = oracle::FloatOfBits(bits);
    if (!(amax > 0) || std::isinf(amax)) return;
    const float quotient =
        static_cast<float>(static_cast<double>(kE4M3Max) / amax);
    for (const int margin : {0, 5, 32}) {
      double want = std::isinf(quotient) ? static_cast<double>(kFloatMax)
                                         : std::ldexp(quotient, -margin);
      want = std::max(want, 0x1p-126);
      ASSERT_EQ(static_cast<double>(ScaleFromAmax(amax, kE4M3Max, margin)),
                want)
          << amax << " margin " << margin;
    }
  });
}

TEST(DelayedScaleTest, BackOffHalvesDownToTheSmallestNormal) {
  EXPECT_EQ(BackedOffScale(56.0f), 28.0f);
  EXPECT_EQ(BackedOffScale(0x1p-126f), 0x1p-126f);
  EXPECT_EQ(BackedOffScale(1.5f * 0x1p-126f), 0x1p-126f);
}

TEST(DelayedScaleTest, AmaxOfScaleInvertsTheFormula) {
  EXPECT_EQ(AmaxOfScale(ScaleInverse(56.0f), kE4M3Max, 0), 8.0f);
  EXPECT_EQ(
      AmaxOfScale(ScaleInverse(ScaleFromAmax(8.0f, kE4M3Max, 3)), kE4M3Max, 3),
      8.0f);
}

struct CurrentRow {
  uint32_t amax;  // bits
  bool pow2;
  float epsilon;
  uint32_t scale;
  uint32_t scale_inv;
};

uint32_t Current(uint32_t amax, bool pow2 = false, float epsilon = 0,
                 float format_max = kE4M3Max,
                 float overflow_scale = kFloatMax) {
  CurrentScaleOptions options;
  options.format_max = format_max;
  options.power_2_scale = pow2;
  options.amax_epsilon = epsilon;
  options.overflow_scale = overflow_scale;
  return BitsFromFloat(CurrentScaleFromAmax(amax, options));
}

TEST(CurrentScaleTest, TableOfTheDefinition) {
  const uint32_t one = AmaxBits(1.0f);
  const uint32_t three = AmaxBits(3.0f);
  const uint32_t tiny = AmaxBits(1e-38f);
  const uint32_t largest = AmaxBits(kFloatMax);
  const std::vector<CurrentRow> rows = {
      {one, false, 0, BitsFromFloat(448.0f), 0x3B124925u},
      {three, false, 0, 0x43155555u, 0x3BDB6DB7u},
      {three, true, 0, BitsFromFloat(128.0f), BitsFromFloat(0x1p-7f)},
      {AmaxBits(448.0f), true, 0, BitsFromFloat(1.0f), BitsFromFloat(1.0f)},
      {AmaxBits(449.0f), true, 0, BitsFromFloat(0.5f), BitsFromFloat(2.0f)},
      {0, false, 1e-4f, 0x4A88B800u, 0x346FACADu},
      {0, true, 1e-4f, BitsFromFloat(4194304.0f), BitsFromFloat(0x1p-22f)},
      {tiny, false, 0, BitsFromFloat(kFloatMax), 0x00200000u},
      {tiny, true, 0, BitsFromFloat(0x1p127f), BitsFromFloat(0x1p-127f)},
      {largest, false, 0, 0x03E00001u, 0x7B124924u},
      {largest, true, 0, BitsFromFloat(0x1p-120f), BitsFromFloat(0x1p120f)},
  };
  for (const CurrentRow& row : rows) {
    const uint32_t scale = Current(row.amax, row.pow2, row.epsilon);
    EXPECT_EQ(scale, row.scale) << std::hex << row.amax << " " << row.pow2;
    EXPECT_EQ(BitsFromFloat(ScaleInverse(FloatFromBits(scale))), row.scale_inv)
        << std::hex << row.amax << " " << row.pow2;
  }
}

TEST(CurrentScaleTest, BlockOfBFloat16OverflowsToItsLargestFinite) {
  const float bf16_max = FloatFromBits(0x7F7F0000u);
  const uint32_t scale =
      Current(AmaxBits(1e-38f), false, 0, kE4M3Max, bf16_max);
  EXPECT_EQ(scale, 0x7F7F0000u);
  EXPECT_EQ(BitsFromFloat(ScaleInverse(FloatFromBits(scale))), 0x00202020u);
}

TEST(CurrentScaleTest, ZeroAndNonFiniteGiveOne) {  // B1, B3
  const uint32_t one = BitsFromFloat(1.0f);
  for (const bool pow2 : {false, true}) {
    EXPECT_EQ(Current(0, pow2), one);
    EXPECT_EQ(Current(AmaxBits(kInf), pow2), one);
    EXPECT_EQ(Current(AmaxBits(kNaN), pow2), one);
    EXPECT_EQ(Current(AmaxBits(kNaN), pow2, 1e-4f), one);
    EXPECT_EQ(Current(AmaxBits(kInf), pow2, 1e-4f), one);
  }
}

TEST(CurrentScaleTest, PowersOfTwoRoundDown) {  // B7
  EXPECT_EQ(Current(AmaxBits(1.0f), true), BitsFromFloat(256.0f));
  EXPECT_EQ(Current(AmaxBits(3.0f), true), BitsFromFloat(128.0f));
  EXPECT_EQ(Current(0x43DFFFFFu, true), BitsFromFloat(1.0f));
  EXPECT_EQ(Current(AmaxBits(448.0f), true), BitsFromFloat(1.0f));
  EXPECT_EQ(Current(AmaxBits(449.0f), true), BitsFromFloat(0.5f));
  EXPECT_EQ(Current(0x00000001u, true), 0x7F000000u);
}

TEST(CurrentScaleTest, PowersOfTwoNeverSaturateTheAmax) {
  ForEachSteppedFloat([](uint32_t bits) {
    const uint32_t amax = bits & kFloatMagnitudeMask;
    if (amax == 0 || IsNonFiniteAmax(amax)) return;
    const float scale = FloatFromBits(Current(amax, true));
    const double product = static_cast<double>(FloatFromBits(amax)) * scale;
    ASSERT_LE(product, 448.0) << std::hex << amax;
    if (scale != 0x1p127f) {
      ASSERT_GT(2 * product, 448.0 * (1 - 0x1p-23)) << std::hex << amax;
    }
  });
}

TEST(CurrentScaleTest, EpsilonIsAFloorOfTheAmaxOnly) {  // B9, B10
  EXPECT_EQ(Current(AmaxBits(1e-6f), false, 1e-4f), 0x4A88B800u);
  EXPECT_EQ(Current(AmaxBits(1.0f), false, 1e-4f), BitsFromFloat(448.0f));
  EXPECT_FLOAT_EQ(FloatFromBits(Delayed(1e-6f, 0, kE5M2Max)), 5.7344e10f);
  const float inverse = ScaleInverse(FloatFromBits(Current(AmaxBits(0.01f))));
  EXPECT_FLOAT_EQ(inverse, 0.01f / 448.0f);
}

// B16: a shard's codes cannot be kept under another shard's scale.
TEST(CurrentScaleTest, AShardIsEncodedAnewUnderTheLargerScaleInverse) {
  const float own = FloatFromBits(Current(AmaxBits(1.0f)));
  const float merged = FloatFromBits(Current(AmaxBits(4.0f)));
  const uint8_t code = EncodeE4M3(1.0f * own);
  EXPECT_EQ(code, 0x7E);
  const float value = DecodeE4M3(code) * ScaleInverse(own);
  EXPECT_EQ(EncodeE4M3(value * merged), 0x6E);
  EXPECT_EQ(DecodeE4M3(0x6E) * ScaleInverse(merged), 1.0f);
  EXPECT_EQ(DecodeE4M3(code) * ScaleInverse(merged), 4.0f) << "kept as it was";
}

}  // namespace
}  // namespace scalekeeper
