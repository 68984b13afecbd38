#include "base/fp8_capability.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Fp8CapabilityTest, OldChipsAreRefusedWithWhatTheyLack) {
  const struct {
    int capability;
    const char* name;
  } rows[] = {{70, "7.0"}, {80, "8.0"}, {86, "8.6"}, {87, "8.7"}};
  for (const auto& row : rows) {
    EXPECT_THAT(CheckHasFp8(Device::Cuda(3), row.capability),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("cuda:3 has compute capability "),
                               HasSubstr(row.name), HasSubstr("want 8.9"),
                               HasSubstr("no FP8"))));
  }
}

TEST(Fp8CapabilityTest, NewerChipsAreTaken) {
  for (const int capability : {89, 90, 100, 103, 120, 121}) {
    EXPECT_THAT(CheckHasFp8(Device::Cuda(0), capability), IsOk());
  }
}

}  // namespace
}  // namespace scalekeeper
