#include "amax/natural_order.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

TEST(NaturalOrderTest, IsAStrictTotalOrder) {
  const std::vector<std::string> ordered = {"",
                                            "1",
                                            "02",
                                            "2",
                                            "10",
                                            "99999999999999999999",
                                            "100000000000000000000",
                                            "a",
                                            "a.b",
                                            "a1",
                                            "a1b",
                                            "a2",
                                            "a2.x",
                                            "a2.y",
                                            "a10",
                                            "experts.2",
                                            "experts.10",
                                            "experts.10.fc1",
                                            "experts.a"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(NaturalLess(ordered[i], ordered[j]), i < j)
          << ordered[i] << " against " << ordered[j];
    }
  }
}

}  // namespace
}  // namespace scalekeeper
