#include "quantizer/statistics.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "numerics/amax.h"

namespace scalekeeper {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(StatisticsTest, EmptyHasNoFractionsAndLosesNothing) {
  const Statistics s;
  EXPECT_EQ(s.underflow_fraction(), 0.0);
  EXPECT_EQ(s.saturation_fraction(), 0.0);
  EXPECT_EQ(s.sqnr_db(), kInf);
  EXPECT_EQ(s.amax(), 0.0f);
  EXPECT_TRUE(std::isnan(s.staleness()));
}

TEST(StatisticsTest, FractionsHaveTheirOwnDenominators) {
  Statistics s;
  s.count = 10;
  s.nonzero = 8;
  s.underflow = 2;
  s.saturation = 1;
  EXPECT_EQ(s.underflow_fraction(), 0.25);
  EXPECT_EQ(s.saturation_fraction(), 0.1);
}

TEST(StatisticsTest, SqnrIsTwentyLogOfTheNorms) {
  Statistics s;
  s.signal = 100.0 * 100.0;
  s.error = 1.0;
  EXPECT_DOUBLE_EQ(s.sqnr_db(), 40.0);
  s.error = kInf;
  EXPECT_EQ(s.sqnr_db(), -kInf);
}

TEST(StatisticsTest, StalenessComparesWithTheAmaxOfTheScale) {
  Statistics s;
  s.amax_bits = AmaxBits(12.0f);
  s.scale_amax = 8.0f;
  EXPECT_EQ(s.staleness(), 1.5);
}

TEST(StatisticsTest, MergeAddsAndKeepsTheLargerAmax) {
  Statistics a;
  a.count = 4;
  a.nonzero = 3;
  a.underflow = 1;
  a.saturation = 2;
  a.non_finite = 1;
  a.amax_bits = AmaxBits(2.0f);
  a.signal = 5;
  a.error = 1;
  a.scale = 7;
  Statistics b = a;
  b.amax_bits = AmaxBits(std::nanf(""));
  b.scale = 9;
  a.Merge(b);
  EXPECT_EQ(a.count, 8);
  EXPECT_EQ(a.nonzero, 6);
  EXPECT_EQ(a.underflow, 2);
  EXPECT_EQ(a.saturation, 4);
  EXPECT_EQ(a.non_finite, 2);
  EXPECT_TRUE(std::isnan(a.amax()));
  EXPECT_EQ(a.signal, 10);
  EXPECT_EQ(a.error, 2);
  EXPECT_EQ(a.scale, 7);
}

}  // namespace
}  // namespace scalekeeper
