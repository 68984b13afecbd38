// RecipeSpec -> canonical text: schema order, two spaces per level, one field a
// line, fields as written (an explicit default stays explicit).
#include "recipe/print.h"

#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "recipe/schema_enum.h"
#include "recipe/spec_fields.h"

namespace scalekeeper {
namespace {

std::string TextFormatString(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text), "\"");
}

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
      Scalar(name, TextFormatString(*value));
    } else if constexpr (std::is_same_v<T, Parameters>) {
      Struct(name, *value);
    } else {
      Nested(name, *value);
    }
  }

  template <typename T>
  void operator()(const char* name, const std::vector<T>& values) {
    for (const T& value : values) Nested(name, value);
  }

  void operator()(const char*, const ScalingSpec& scaling) {
    std::visit(
        [&](const auto& spec) {
          using S = std::decay_t<decltype(spec)>;
          if constexpr (!std::is_same_v<S, std::monostate>) {
            Nested(Name(ScalingOf(scaling)), spec);
          }
        },
        scaling);
  }

 private:
  void Scalar(absl::string_view name, absl::string_view value) {
    absl::StrAppend(&out_, std::string(Indent(), ' '), name, ": ", value, "\n");
  }

  template <typename Spec>
  void Nested(absl::string_view name, const Spec& spec) {
    Message(name,
            [&spec](Printer& inner) { FieldsOf<Spec>::Visit(spec, inner); });
  }

  // What `print_fields(inner printer)` prints, in braces.
  template <typename F>
  void Message(absl::string_view name, const F& print_fields) {
    std::string body;
    Printer inner(depth_ + 1, body);
    print_fields(inner);
    const std::string indent(Indent(), ' ');
    if (body.empty()) {
      absl::StrAppend(&out_, indent, name, " {}\n");
    } else {
      absl::StrAppend(&out_, indent, name, " {\n", body, indent, "}\n");
    }
  }

  // google.protobuf.Struct.
  void Struct(absl::string_view name, const Parameters& parameters) {
    Message(name, [&parameters](Printer& inner) {
      for (const auto& field : parameters) {
        inner.Message("fields", [&field](Printer& entry) {
          entry.Scalar("key", TextFormatString(field.first));
          entry.Value("value", field.second);
        });
      }
    });
  }

  // google.protobuf.Value.
  void Value(absl::string_view name, const ParameterValue& value) {
    Message(name, [&value](Printer& inner) {
      std::visit([&inner](const auto& v) { inner.Kind(v); }, value.value);
    });
  }
  void Kind(std::nullptr_t) { Scalar("null_value", "NULL_VALUE"); }
  void Kind(bool v) { Scalar("bool_value", v ? "true" : "false"); }
  void Kind(double v) { Scalar("number_value", ShortestNumber(v)); }
  void Kind(const std::string& v) {
    Scalar("string_value", TextFormatString(v));
  }
  void Kind(const ParameterList& v) {
    Message("list_value", [&v](Printer& inner) {
      for (const ParameterValue& element : v) inner.Value("values", element);
    });
  }
  void Kind(const Parameters& v) { Struct("struct_value", v); }

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
