// Names as people count: "experts.2" before "experts.10".
#ifndef SCALEKEEPER_AMAX_NATURAL_ORDER_H_
#define SCALEKEEPER_AMAX_NATURAL_ORDER_H_

#include "absl/strings/string_view.h"

namespace scalekeeper {

// A strict total order: runs of decimal digits compare by value (of any
// length), everything else by byte; names that differ only in leading zeros
// compare by byte.
bool NaturalLess(absl::string_view a, absl::string_view b);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_NATURAL_ORDER_H_
