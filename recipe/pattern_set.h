// Many RE2 patterns matched against one name at once.
//
// Order of calls: Create, then Match as often as wanted.
// Threads: Match is safe from any thread.
#ifndef SCALEKEEPER_RECIPE_PATTERN_SET_H_
#define SCALEKEEPER_RECIPE_PATTERN_SET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "re2/re2.h"
#include "re2/set.h"

namespace scalekeeper {

class PatternSet {
 public:
  // The patterns must be valid.
  explicit PatternSet(const std::vector<std::string>& patterns);

  // Indices of the patterns that match the whole name, ascending.
  void Match(absl::string_view name, std::vector<int>& matches) const;

  // Whether `pattern` matches the whole name with a non-negative number in its
  // group 1, and which.
  bool CaptureNumber(int pattern, absl::string_view name,
                     int64_t& number) const;

 private:
  std::unique_ptr<re2::RE2::Set> set_;  // null: match one by one
  std::vector<std::unique_ptr<re2::RE2>> patterns_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_PATTERN_SET_H_
