#include "recipe/nearest_module.h"

#include <algorithm>
#include <vector>

namespace scalekeeper {
namespace {

constexpr char kAnyText = '\0';
constexpr size_t kLongestCompared = 256;  // bytes, of pattern and of names

// The end of the group or class that opens at `i`.
size_t SkipBracket(absl::string_view pattern, size_t i) {
  const char open = pattern[i];
  const char close = open == '(' ? ')' : ']';
  size_t depth = 0;
  for (; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == open) {
      ++depth;
    } else if (pattern[i] == close && --depth == 0) {
      break;
    }
  }
  return i;
}

// `layers\.\d+\.fc(1|2)` -> `layers.*.fc*`, with kAnyText for the stars.
std::string Literals(absl::string_view pattern) {
  std::string text;
  const auto any = [&text] {
    if (text.empty() || text.back() != kAnyText) text += kAnyText;
  };
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      const bool is_class =
          (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
      is_class ? any() : text.push_back(next);
    } else if (c == '(' || c == '[') {
      i = SkipBracket(pattern, i);
      any();
    } else if (c == '{') {
      i = std::min(pattern.find('}', i), pattern.size());
    } else if (c == '*' || c == '+' || c == '?') {
      if (!text.empty() && text.back() != kAnyText) text.pop_back();
      any();
    } else if (c == '.') {
      any();
    } else if (c != '^' && c != '$' && c != '|' && c != ')') {
      text += c;
    }
  }
  return text;
}

// Edits between `text` and `name`, kAnyText matching anything for nothing; any
// number above `limit` reads limit + 1.
size_t Distance(absl::string_view text, absl::string_view name, size_t limit,
                std::vector<size_t>& last, std::vector<size_t>& row) {
  last.resize(name.size() + 1);
  row.resize(name.size() + 1);
  for (size_t j = 0; j <= name.size(); ++j) last[j] = j;
  for (char c : text) {
    row[0] = c == kAnyText ? last[0] : last[0] + 1;
    size_t smallest = row[0];
    for (size_t j = 1; j <= name.size(); ++j) {
      row[j] = c == kAnyText
                   ? std::min(last[j], row[j - 1])
                   : std::min({last[j - 1] + (c == name[j - 1] ? 0 : 1),
                               last[j] + 1, row[j - 1] + 1});
      smallest = std::min(smallest, row[j]);
    }
    if (smallest > limit) return limit + 1;
    std::swap(last, row);
  }
  return last[name.size()];
}

}  // namespace

std::string NearestModule(absl::string_view pattern,
                          absl::Span<const std::string> modules,
                          size_t& budget) {
  const std::string text = Literals(pattern.substr(0, kLongestCompared));
  const auto literal = static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return c != kAnyText; }));
  std::string nearest;
  size_t limit = literal / 2;  // farther names are no help
  std::vector<size_t> last, row;
  for (const std::string& module : modules) {
    if (budget == 0) break;
    --budget;
    if (module.size() > kLongestCompared) continue;
    const size_t distance = Distance(text, module, limit, last, row);
    if (distance > limit) continue;
    nearest = module;
    if (distance == 0) break;
    limit = distance - 1;
  }
  return nearest;
}

}  // namespace scalekeeper
