#include "tests/testing/status_matchers.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusMatchersTest, StatusCodeAndMessageMustBothMatch) {
  const absl::Status status = absl::NotFoundError("no slot named q");
  EXPECT_THAT(status, Not(IsOk()));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("q")));
  EXPECT_THAT(status, Not(StatusIs(absl::StatusCode::kNotFound, "q")));
  EXPECT_THAT(status,
              Not(StatusIs(absl::StatusCode::kInternal, HasSubstr("q"))));
  EXPECT_THAT(absl::OkStatus(), IsOk());
}

TEST(StatusMatchersTest, StatusOrIsMatchedByValueAndByStatus) {
  const absl::StatusOr<int> five = 5;
  EXPECT_THAT(five, IsOk());
  EXPECT_THAT(five, IsOkAndHolds(5));
  EXPECT_THAT(five, IsOkAndHolds(Not(4)));
  EXPECT_THAT(five, Not(IsOkAndHolds(4)));
  const absl::StatusOr<std::string> none = absl::InternalError("x");
  EXPECT_THAT(none, Not(IsOkAndHolds(std::string("x"))));
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kInternal, "x"));
}

}  // namespace
}  // namespace scalekeeper
