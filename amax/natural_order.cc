#include "amax/natural_order.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace scalekeeper {
namespace {

// Takes the digits at the front of `text`, without leading zeros.
absl::string_view TakeNumber(absl::string_view* text) {
  size_t end = 0;
  while (end < text->size() && absl::ascii_isdigit((*text)[end])) ++end;
  absl::string_view number = text->substr(0, end);
  text->remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

}  // namespace

bool NaturalLess(absl::string_view a, absl::string_view b) {
  const absl::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (absl::ascii_isdigit(a[0]) && absl::ascii_isdigit(b[0])) {
      const absl::string_view x = TakeNumber(&a), y = TakeNumber(&b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[0] != b[0]) {
        return static_cast<unsigned char>(a[0]) <
               static_cast<unsigned char>(b[0]);
      }
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;
}

}  // namespace scalekeeper
