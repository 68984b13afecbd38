#include "base/text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace scalekeeper {
namespace {

// Bytes of the UTF-8 sequence at the start of `text`, 0 if it is not one.
size_t Utf8SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong =
      (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) > 0x9F;
  const bool too_large = lead == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

template <typename T, typename Read>
std::string Shortest(T value, int most_digits, Read read) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text;
  for (int digits = 1; digits <= most_digits; ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    if (read(text.c_str()) == value) break;
  }
  return text;
}

}  // namespace

size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit) {
  const size_t difference =
      a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (difference > limit) return limit + 1;
  // Rows i - 2, i - 1 and i of the usual table.
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    size_t smallest = row[0];
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
      smallest = std::min(smallest, row[j]);
    }
    if (smallest > limit) return limit + 1;
    before = last;
    std::swap(last, row);
  }
  return std::min(last[b.size()], limit + 1);
}

std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& candidates) {
  std::string best;
  const std::string lower = absl::AsciiStrToLower(name);
  size_t best_cost = std::max<size_t>(2, name.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    // Both spellings count, so that only case differing is nearest of all.
    const size_t cost =
        EditDistance(lower, absl::AsciiStrToLower(candidate), best_cost) +
        (EditDistance(name, candidate, best_cost) > 0 ? 1 : 0);
    if (cost < best_cost) {
      best = candidate;
      best_cost = cost;
    }
  }
  return best;
}

std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  if (nearest.empty()) return "";
  return absl::StrCat(", did you mean \"", nearest, "\"?");
}

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const size_t length = Utf8SequenceLength(text);
    if (length == 0 || c < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(&out, "\\x%02x", c);
      text.remove_prefix(1);
    } else {
      if (c == '"') out += '\\';
      out.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return out + "\"";
}

std::string ShortestNumber(double value) {
  return Shortest(value, 17,
                  [](const char* text) { return std::strtod(text, nullptr); });
}

std::string ShortestNumber(float value) {
  return Shortest(value, 9,
                  [](const char* text) { return std::strtof(text, nullptr); });
}

size_t FirstInvalidUtf8(absl::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    const size_t length = Utf8SequenceLength(text.substr(offset));
    if (length == 0) return offset;
    offset += length;
  }
  return offset;
}

}  // namespace scalekeeper
