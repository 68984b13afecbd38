#include "base/json.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace scalekeeper {

std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  size_t valid = FirstInvalidUtf8(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (i == valid) {
      out += "\\ufffd";
      valid = i + 1 + FirstInvalidUtf8(text.substr(i + 1));
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      out += text[i];
    }
  }
  return out + "\"";
}

std::string JsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  return absl::StrFormat("%.9g", value);
}

std::string JsonNumberOrName(double value) {
  return std::isfinite(value) ? JsonNumber(value)
                              : JsonString(ShortestNumber(value));
}

}  // namespace scalekeeper
