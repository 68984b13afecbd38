// RecipeSpec -> canonical text: schema order, two spaces per level, one field a
// line, fields as written (an explicit default stays explicit).
#include "recipe/print.h"

#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "recipe/spec_fields.h"

namespace scalekeeper {
namespace {

class Printer {
 public:
  Printer(int depth, std::string& out) : depth_(depth), out_(out) {}

  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (!value) return;
    if constexpr (std::is_enum_v<T>) {
      Scalar(name, SchemaEnum<T>::NameOf(*value));
    } else if constexpr (std::is_same_v<T, bool>) {
      Scalar(name, *value ? "true" : "false");
    } else if constexpr (std::is_same_v<T, int64_t>) {
      Scalar(name, absl::StrCat(*value));
    } else if constexpr (std::is_same_v<T, double>) {
      Scalar(name, ShortestNumber(*value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      Scalar(name, absl::StrCat("\"", absl::CHexEscape(*value), "\""));
    } else {
      Nested(name, *value);
    }
  }

  template <typename T>
  void operator()(const char* name, const std::vector<T>& values) {
    for (const T& value : values) Nested(name, value);
  }

  void operator()(const char*, const ScalingSpec& scaling) {
    if (const auto* hp = std::get_if<HighPrecisionSpec>(&scaling)) {
      Nested(Name(Scaling::kHighPrecision), *hp);
    } else if (const auto* delayed = std::get_if<DelayedSpec>(&scaling)) {
      Nested(Name(Scaling::kDelayed), *delayed);
    } else if (const auto* current = std::get_if<CurrentSpec>(&scaling)) {
      Nested(Name(Scaling::kCurrent), *current);
    } else if (const auto* other = std::get_if<NotBuiltSpec>(&scaling)) {
      Nested(Name(other->scaling), *other);
    }
  }

 private:
  void Scalar(absl::string_view name, absl::string_view value) {
    absl::StrAppend(&out_, std::string(Indent(), ' '), name, ": ", value, "\n");
  }

  template <typename Spec>
  void Nested(absl::string_view name, const Spec& spec) {
    std::string body;
    Printer printer(depth_ + 1, body);
    FieldsOf<Spec>::Visit(spec, printer);
    const std::string indent(Indent(), ' ');
    if (body.empty()) {
      absl::StrAppend(&out_, indent, name, " {}\n");
    } else {
      absl::StrAppend(&out_, indent, name, " {\n", body, indent, "}\n");
    }
  }

  size_t Indent() const { return static_cast<size_t>(depth_) * 2; }

  const int depth_;
  std::string& out_;
};

}  // namespace

std::string PrintSpec(const RecipeSpec& spec) {
  std::string text;
  Printer printer(0, text);
  FieldsOf<RecipeSpec>::Visit(spec, printer);
  return text;
}

bool operator==(const RecipeSpec& a, const RecipeSpec& b) {
  return PrintSpec(a) == PrintSpec(b);
}

}  // namespace scalekeeper
