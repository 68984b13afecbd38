// Small text helpers for messages that people read.
//
// Example:
//   auto near = NearestName("lnit", {"lint", "diff"});  // "lint"
#ifndef SCALEKEEPER_BASE_TEXT_H_
#define SCALEKEEPER_BASE_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace scalekeeper {

// Insertions, deletions, replacements and swaps of neighbours, each of cost 1,
// that turn `a` into `b`; any number above `limit` reads limit + 1.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit);

// The candidate that is close enough to be what was meant (upper and lower case
// count as half as far), or "".
std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& candidates);

// `, did you mean "x"?` for NearestName, or "".
std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& candidates);

// In double quotes, on one line: control characters, double quotes and bytes
// that are not UTF-8 are escaped; backslashes (of patterns) stay as they are.
std::string Quoted(absl::string_view text);

// The fewest digits that read back as the same number; "inf", "-inf", "nan".
std::string ShortestNumber(double value);
std::string ShortestNumber(float value);

// Offset of the first byte that is not part of valid UTF-8; text.size() when
// all of it is.
size_t FirstInvalidUtf8(absl::string_view text);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_TEXT_H_
