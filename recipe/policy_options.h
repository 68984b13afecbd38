// The options of a policy's scaling, one after another: Describe, the
// fingerprint, `diff` and `explain` all walk this list, so that a new option is
// added in one place.
#ifndef SCALEKEEPER_RECIPE_POLICY_OPTIONS_H_
#define SCALEKEEPER_RECIPE_POLICY_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "recipe/policy.h"

namespace scalekeeper {

struct PolicyOption {
  enum class Kind {
    kPlain,  // a number, true or false
    kWord,   // an enum's value
    kText,   // a string, here without quotes
    kJson,   // a JSON object
  };
  absl::string_view name;  // the recipe's field name
  Kind kind = Kind::kPlain;
  std::string value;
  bool is_default = false;  // false too where the default is the role's own
};

// In schema order, without `format`.
std::vector<PolicyOption> OptionsOf(const Policy& policy);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_POLICY_OPTIONS_H_
