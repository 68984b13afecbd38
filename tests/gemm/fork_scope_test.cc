// Lanes that were forked are joined, whatever fails.
#include "gemm/fork_scope.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Writes down what is asked of it; calls named in `failing` fail.
class FakeLanes : public ForkableLanes {
 public:
  absl::Status Mark() override { return Call("mark"); }
  absl::Status Fork(size_t lane) override {
    return Call(absl::StrCat("fork ", lane));
  }
  absl::Status Join(size_t lane) override {
    return Call(absl::StrCat("join ", lane));
  }

  std::vector<std::string> failing;
  std::vector<std::string> calls;

 private:
  absl::Status Call(const std::string& name) {
    calls.push_back(name);
    for (const std::string& fails : failing) {
      if (fails == name) return absl::InternalError(name);
    }
    return absl::OkStatus();
  }
};

TEST(ForkScopeTest, JoinsWhatItForked) {
  FakeLanes lanes;
  {
    ForkScope scope(&lanes);
    EXPECT_THAT(scope.Fork(3), IsOk());
    EXPECT_THAT(scope.Join(), IsOk());
  }
  EXPECT_THAT(lanes.calls,
              ElementsAre("mark", "fork 1", "fork 2", "join 2", "join 1"));
}

TEST(ForkScopeTest, AScopeThatIsLeftEarlyJoins) {
  FakeLanes lanes;
  {
    ForkScope scope(&lanes);
    EXPECT_THAT(scope.Fork(2), IsOk());
  }
  EXPECT_THAT(lanes.calls, ElementsAre("mark", "fork 1", "join 1"));
}

// A lane that was not forked must not be joined: in a capture it is not part
// of it.
TEST(ForkScopeTest, AForkThatFailsMidwayIsJoined) {
  FakeLanes lanes;
  lanes.failing = {"fork 2"};
  {
    ForkScope scope(&lanes);
    EXPECT_THAT(scope.Fork(4),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("fork 2")));
  }
  EXPECT_THAT(lanes.calls, ElementsAre("mark", "fork 1", "fork 2", "join 1"));
}

TEST(ForkScopeTest, AJoinThatFailsLeavesNoneOut) {
  FakeLanes lanes;
  lanes.failing = {"join 3", "join 1"};
  ForkScope scope(&lanes);
  EXPECT_THAT(scope.Fork(4), IsOk());
  lanes.calls.clear();
  EXPECT_THAT(scope.Join(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("join 3")));
  EXPECT_THAT(lanes.calls, ElementsAre("join 3", "join 2", "join 1"));
  EXPECT_THAT(scope.Join(), IsOk());  // done
}

TEST(ForkScopeTest, OneLaneNeedsNoFork) {
  FakeLanes lanes;
  {
    ForkScope scope(&lanes);
    EXPECT_THAT(scope.Fork(1), IsOk());
    EXPECT_THAT(scope.Join(), IsOk());
  }
  EXPECT_THAT(lanes.calls, IsEmpty());
}

}  // namespace
}  // namespace scalekeeper
