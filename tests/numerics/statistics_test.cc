// Numbers worked out from numerics.md section 7, and the casts themselves.
#include "numerics/statistics.h"

#include <cmath>

#include "gtest/gtest.h"
#include "numerics/format.h"

namespace scalekeeper {
namespace {

TEST(StatisticsTest, WhatIsAtMostTheThresholdBecomesZero) {
  for (const Format format : {Format::kE4M3, Format::kE5M2, Format::kE2M1}) {
    for (const float scale : {1.0f, 448.0f, 0.001f, 3e30f}) {
      const float threshold =
          static_cast<float>(UnderflowThreshold(format, scale));
      const float below = std::nextafter(threshold, 0.0f) * (1 - 0x1p-20f);
      const float above = threshold * (1 + 0x1p-20f);
      EXPECT_EQ(Encode(format, below * scale), 0) << scale;
      EXPECT_EQ(Encode(format, above * scale), 1) << scale;
    }
    EXPECT_EQ(Encode(format, static_cast<float>(UnderflowThreshold(format, 1))),
              0);
    EXPECT_EQ(Encode(format, SmallestSubnormal(format)), 1);
    EXPECT_EQ(Decode(format, 1), SmallestSubnormal(format));
  }
}

TEST(StatisticsTest, AScaleMadeFromTheAmaxNeverSaturatesIt) {
  for (const float format_max : {448.0f, 57344.0f}) {
    for (uint32_t bits = 0x30000000u; bits < 0x50000000u; bits += 99991) {
      const float amax = FloatFromBits(bits);
      const float scale = ScaleFromAmax(amax, format_max, 0);
      ASSERT_FALSE(Saturates(amax, scale, format_max)) << amax;
      // One step of eight bits of mantissa more does.
      ASSERT_TRUE(Saturates(amax * (1 + 0x1p-8f), scale, format_max)) << amax;
    }
  }
}

TEST(StatisticsTest, StalenessIsTheAmaxNowOverThatOfTheScale) {
  const float scale = ScaleFromAmax(4, 448, /*margin=*/2);
  EXPECT_EQ(Staleness(4, ScaleInverse(scale), 448, 2), 1);
  EXPECT_EQ(Staleness(16, ScaleInverse(scale), 448, 2), 4);
  EXPECT_EQ(Staleness(0.5f, ScaleInverse(scale), 448, 2), 0.125f);
}

TEST(StatisticsTest, ValuesOfABucketAreEvenlySpread) {
  EXPECT_EQ(SpreadBelow(2, 4, 1), 0);
  EXPECT_EQ(SpreadBelow(2, 4, 2), 0);
  EXPECT_EQ(SpreadBelow(2, 4, 2.5), 0.25);
  EXPECT_EQ(SpreadBelow(2, 4, 4), 1);
  EXPECT_EQ(SpreadBelow(2, 4, 9), 1);
}

}  // namespace
}  // namespace scalekeeper
