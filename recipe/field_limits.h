// The allowed values of integer fields, by field name: one table for the range
// check and for what error messages say is wanted.
#ifndef SCALEKEEPER_RECIPE_FIELD_LIMITS_H_
#define SCALEKEEPER_RECIPE_FIELD_LIMITS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

struct IntegerLimits {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();

  bool Allows(int64_t value) const { return value >= low && value <= high; }

  // "0..32", ">= 0", "1", or "an integer".
  std::string Want() const {
    if (low == high) return absl::StrCat(low);
    if (low == std::numeric_limits<int64_t>::min()) return "an integer";
    if (high == std::numeric_limits<int64_t>::max()) {
      return absl::StrCat(">= ", low);
    }
    return absl::StrCat(low, "..", high);
  }
};

inline IntegerLimits LimitsOf(absl::string_view field) {
  constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();
  if (field == "margin") return {0, 32};
  if (field == "amax_history_len") return {1, 65536};
  if (field == "from_step" || field == "first" || field == "last") {
    return {0, kNoEnd};
  }
  if (field == "interval") return {1, 65536};
  if (field == "staleness") return {0, 1};
  if (field == "schema_version") return {1, 1};
  return {};
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_FIELD_LIMITS_H_
