// Matchers for absl::Status and absl::StatusOr: code and message at once.
//
// Example:
//   EXPECT_THAT(state->Freeze(), IsOk());
//   EXPECT_THAT(Recipe::Parse(text, "r"),
//               StatusIs(absl::StatusCode::kInvalidArgument,
//                        HasSubstr("amax_history_len: got 0")));
//   EXPECT_THAT(state->Scale(slot, stream), IsOkAndHolds(448.0f));
#ifndef SCALEKEEPER_TESTS_TESTING_STATUS_MATCHERS_H_
#define SCALEKEEPER_TESTS_TESTING_STATUS_MATCHERS_H_

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace scalekeeper {
namespace internal {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status) {
  return status.status();
}

template <typename Inner>
class IsOkAndHoldsMatcher {
 public:
  explicit IsOkAndHoldsMatcher(Inner inner) : inner_(std::move(inner)) {}

  template <typename StatusOrT>
  operator ::testing::Matcher<StatusOrT>() const {  // NOLINT: converts
    return ::testing::Matcher<StatusOrT>(new Impl<StatusOrT>(inner_));
  }

 private:
  template <typename StatusOrT>
  class Impl : public ::testing::MatcherInterface<StatusOrT> {
   public:
    using Value = typename std::decay_t<StatusOrT>::value_type;

    explicit Impl(const Inner& inner)
        : inner_(::testing::SafeMatcherCast<const Value&>(inner)) {}

    void DescribeTo(std::ostream* os) const override {
      *os << "is OK and holds a value that ";
      inner_.DescribeTo(os);
    }
    bool MatchAndExplain(
        StatusOrT actual,
        ::testing::MatchResultListener* listener) const override {
      if (!actual.ok()) {
        *listener << "which has status " << actual.status().ToString();
        return false;
      }
      return inner_.MatchAndExplain(*actual, listener);
    }

   private:
    const ::testing::Matcher<const Value&> inner_;
  };

  const Inner inner_;
};

}  // namespace internal

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  const absl::Status& status = internal::GetStatus(arg);
  if (status.ok()) return true;
  *result_listener << "which has status " << status.ToString();
  return false;
}

// `message` is a matcher of the status's message, or a string equal to it.
MATCHER_P2(StatusIs, code, message,
           "has status code " + absl::StatusCodeToString(code) +
               " and a message that " +
               ::testing::DescribeMatcher<std::string>(message)) {
  const absl::Status& status = internal::GetStatus(arg);
  *result_listener << "which has status " << status.ToString();
  return status.code() == code &&
         ::testing::Matches(::testing::SafeMatcherCast<std::string>(message))(
             std::string(status.message()));
}

template <typename Inner>
internal::IsOkAndHoldsMatcher<std::decay_t<Inner>> IsOkAndHolds(Inner&& inner) {
  return internal::IsOkAndHoldsMatcher<std::decay_t<Inner>>(
      std::forward<Inner>(inner));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_STATUS_MATCHERS_H_
