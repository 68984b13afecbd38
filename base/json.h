// Writing JSON.
#ifndef SCALEKEEPER_BASE_JSON_H_
#define SCALEKEEPER_BASE_JSON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace scalekeeper {

// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(absl::string_view text);

// A JSON number; null for what JSON has no number for (infinities, NaN).
std::string JsonNumber(double value);

// A JSON number, or a string for what JSON has none for: "nan", "inf", "-inf".
std::string JsonNumberOrName(double value);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_JSON_H_
