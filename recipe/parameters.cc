#include "recipe/parameters.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

std::string Json(const ParameterValue& value);

struct Writer {
  std::string operator()(std::nullptr_t) const { return "null"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(double v) const { return ShortestNumber(v); }
  std::string operator()(const std::string& v) const { return JsonString(v); }
  std::string operator()(const ParameterList& v) const {
    std::string text = "[";
    for (const ParameterValue& element : v) {
      absl::StrAppend(&text, text.size() > 1 ? "," : "", Json(element));
    }
    return text + "]";
  }
  std::string operator()(const Parameters& v) const { return CanonicalJson(v); }
};

std::string Json(const ParameterValue& value) {
  return std::visit(Writer(), value.value);
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Parameters> Run() {
    if (FirstInvalidUtf8(text_) != text_.size()) {
      at_ = FirstInvalidUtf8(text_);
      return Want("UTF-8 text");
    }
    if (Peek() != '{') return Want("\"{\"");
    SK_ASSIGN_OR_RETURN(Parameters parameters, Object(1));
    if (Peek() != '\0' || at_ != text_.size()) return Want("the end");
    return parameters;
  }

 private:
  absl::Status Want(absl::string_view what) const {
    const std::string got = at_ < text_.size()
                                ? absl::StrCat("'", text_.substr(at_, 1), "'")
                                : "the end";
    return absl::InvalidArgumentError(absl::StrCat(
        "parameters: offset ", at_, ": got ", got, ", want ", what));
  }

  // The next character that is no blank; '\0' at the end.
  char Peek() {
    while (at_ < text_.size() &&
           absl::StrContains(" \t\r\n", text_.substr(at_, 1))) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool Consume(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }

  bool ConsumeWord(absl::string_view word) {
    if (!absl::StartsWith(text_.substr(at_), word)) return false;
    at_ += word.size();
    return true;
  }

  absl::StatusOr<Parameters> Object(int depth) {
    if (depth > kMaxParameterDepth) return Want("less nesting");
    Parameters object;
    ++at_;
    if (Consume('}')) return object;
    do {
      if (Peek() != '"') return Want("a name in double quotes");
      const size_t name_at = at_;
      SK_ASSIGN_OR_RETURN(std::string name, String());
      if (!Consume(':')) return Want("\":\"");
      SK_ASSIGN_OR_RETURN(ParameterValue value, Value(depth));
      if (!object.emplace(std::move(name), std::move(value)).second) {
        at_ = name_at;
        return Want("each name once");
      }
    } while (Consume(','));
    if (!Consume('}')) return Want("\",\" or \"}\"");
    return object;
  }

  absl::StatusOr<ParameterList> List(int depth) {
    if (depth > kMaxParameterDepth) return Want("less nesting");
    ParameterList list;
    ++at_;
    if (Consume(']')) return list;
    do {
      SK_ASSIGN_OR_RETURN(ParameterValue value, Value(depth));
      list.push_back(std::move(value));
    } while (Consume(','));
    if (!Consume(']')) return Want("\",\" or \"]\"");
    return list;
  }

  absl::StatusOr<ParameterValue> Value(int depth) {
    const char c = Peek();
    if (c == '{') {
      SK_ASSIGN_OR_RETURN(Parameters object, Object(depth + 1));
      return ParameterValue{std::move(object)};
    }
    if (c == '[') {
      SK_ASSIGN_OR_RETURN(ParameterList list, List(depth + 1));
      return ParameterValue{std::move(list)};
    }
    if (c == '"') {
      SK_ASSIGN_OR_RETURN(std::string text, String());
      return ParameterValue{std::move(text)};
    }
    if (ConsumeWord("null")) return ParameterValue{nullptr};
    if (ConsumeWord("true")) return ParameterValue{true};
    if (ConsumeWord("false")) return ParameterValue{false};
    return Number();
  }

  absl::StatusOr<ParameterValue> Number() {
    size_t end = at_;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < text_.size() &&
             absl::ascii_isdigit(static_cast<unsigned char>(text_[end]))) {
        ++end;
      }
      return end > begin;
    };
    const auto is = [&](absl::string_view any) {
      return end < text_.size() && absl::StrContains(any, text_.substr(end, 1));
    };
    if (is("-")) ++end;
    const size_t first = end;
    bool ok = digits() && (text_[first] != '0' || end == first + 1);
    if (ok && is(".")) {
      ++end;
      ok = digits();
    }
    if (ok && is("eE")) {
      ++end;
      if (is("+-")) ++end;
      ok = digits();
    }
    double number = 0;
    if (!ok || !absl::SimpleAtod(text_.substr(at_, end - at_), &number) ||
        !std::isfinite(number)) {
      return Want(
          "a value (a number within double's range, text, true, "
          "false, null, a list or an object)");
    }
    at_ = end;
    return ParameterValue{number};
  }

  absl::StatusOr<std::string> String() {
    std::string out;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      ++at_;
      SK_RETURN_IF_ERROR(Escape(out));
    }
    return Want("text that a double quote ends on its line");
  }

  // At the character after a backslash; leaves at_ on the last one it takes.
  absl::Status Escape(std::string& out) {
    constexpr absl::string_view kFrom = "\"\\/bfnrt";
    constexpr absl::string_view kTo = "\"\\/\b\f\n\r\t";
    if (at_ < text_.size() && text_[at_] == 'u') return Unicode(out);
    const size_t known =
        at_ < text_.size() ? kFrom.find(text_[at_]) : absl::string_view::npos;
    if (known == absl::string_view::npos) return Want("an escape of JSON");
    out += kTo[known];
    return absl::OkStatus();
  }

  // The four hexadecimal digits after the 'u' at `at`.
  std::optional<uint32_t> Hex4(size_t at) const {
    if (at + 5 > text_.size()) return std::nullopt;
    uint32_t value = 0;
    for (char c : text_.substr(at + 1, 4)) {
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) {
        return std::nullopt;
      }
      const char low = absl::ascii_tolower(static_cast<unsigned char>(c));
      value = value * 16 +
              static_cast<uint32_t>(low <= '9' ? low - '0' : low - 'a' + 10);
    }
    return value;
  }

  absl::Status Unicode(std::string& out) {
    std::optional<uint32_t> code = Hex4(at_);
    if (!code) return Want("four hexadecimal digits");
    size_t end = at_ + 4;
    if (*code >= 0xD800 && *code < 0xDC00 &&
        absl::StartsWith(text_.substr(end + 1), "\\u")) {
      const std::optional<uint32_t> low = Hex4(end + 2);
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
        end += 6;
      }
    }
    if (*code >= 0xD800 && *code < 0xE000) {
      return Want("no half of a surrogate pair");
    }
    AppendUtf8(*code, out);
    at_ = end;
    return absl::OkStatus();
  }

  static void AppendUtf8(uint32_t code, std::string& out) {
    const auto tail = [&](int shift) {
      out += static_cast<char>(0x80 | (code >> shift & 0x3F));
    };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | code >> 12);
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xF0 | code >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string CanonicalJson(const Parameters& parameters) {
  std::string text = "{";
  for (const auto& [name, value] : parameters) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", JsonString(name), ":",
                    Json(value));
  }
  return text + "}";
}

absl::StatusOr<Parameters> ParseParameters(absl::string_view json) {
  return Parser(json).Run();
}

}  // namespace scalekeeper
