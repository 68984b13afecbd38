#include "numerics/amax.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

uint32_t AmaxOf(const std::vector<float>& values) {
  uint32_t amax = 0;
  for (const float x : values) amax = MaxBits(amax, AmaxBits(x));
  return amax;
}

TEST(AmaxTest, BitsOrderAsZeroFiniteInfinityNaN) {
  const std::vector<float> ascending = {0.0f,   0x1p-149f, 0x1p-126f, 1.0f,
                                        448.0f, kFloatMax, kInf,      kNaN};
  for (size_t i = 0; i + 1 < ascending.size(); ++i) {
    EXPECT_LT(AmaxBits(ascending[i]), AmaxBits(ascending[i + 1])) << i;
    EXPECT_EQ(AmaxBits(-ascending[i]), AmaxBits(ascending[i])) << i;
  }
}

TEST(AmaxTest, NonFiniteIsInfinityAndNaN) {
  EXPECT_FALSE(IsNonFiniteAmax(AmaxBits(0.0f)));
  EXPECT_FALSE(IsNonFiniteAmax(AmaxBits(kFloatMax)));
  EXPECT_TRUE(IsNonFiniteAmax(AmaxBits(kInf)));
  EXPECT_TRUE(IsNonFiniteAmax(AmaxBits(-kNaN)));
}

TEST(AmaxTest, NeverNegative) {  // A4
  EXPECT_EQ(AmaxOf({-0.0f}), 0u);
  EXPECT_EQ(AmaxOf({-1e-8f}), BitsFromFloat(1e-8f));
  EXPECT_EQ(AmaxOf({-0x1p-10f}), BitsFromFloat(0x1p-10f));
  EXPECT_EQ(AmaxOf({}), 0u);
}

TEST(AmaxTest, NaNSurvivesEveryOrder) {  // C10
  std::vector<float> values = {1.0f, kNaN, 2.0f};
  std::vector<size_t> order = {0, 1, 2};
  int orders = 0;
  do {
    const uint32_t amax =
        AmaxOf({values[order[0]], values[order[1]], values[order[2]]});
    EXPECT_GT(amax, kFloatInfBits);
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(orders, 6);
}

}  // namespace
}  // namespace scalekeeper
