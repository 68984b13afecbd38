#include "recipe/spec_from_proto.h"

#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "recipe/spec_fields.h"
#include "recipe/syntax_fault.h"
#include "recipe/text_trail.h"

namespace scalekeeper {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename E>
E EnumFromName(absl::string_view name) {
  for (E value : SchemaEnum<E>::kValues) {
    if (SchemaEnum<E>::NameOf(value) == name) return value;
  }
  return SchemaEnum<E>::kValues[0];
}

// Visits the fields of one spec and fills them from the message of that type.
class Reader {
 public:
  Reader(const Message& message, const TextFormat::ParseInfoTree* locations,
         std::string prefix, const SourceText& text, ParsedRecipe& parsed)
      : message_(message),
        reflection_(*message.GetReflection()),
        locations_(locations),
        prefix_(std::move(prefix)),
        text_(text),
        parsed_(parsed) {}

  template <typename T>
  void operator()(const char* name, std::optional<T>& out) {
    const FieldDescriptor* field = Find(name);
    if (!reflection_.HasField(message_, field)) return;
    Note(field, -1, name);
    if constexpr (std::is_same_v<T, int64_t>) {
      out = reflection_.GetInt64(message_, field);
    } else if constexpr (std::is_same_v<T, double>) {
      out = reflection_.GetDouble(message_, field);
    } else if constexpr (std::is_same_v<T, bool>) {
      out = reflection_.GetBool(message_, field);
    } else if constexpr (std::is_same_v<T, std::string>) {
      out = reflection_.GetString(message_, field);
    } else if constexpr (std::is_enum_v<T>) {
      out = EnumFromName<T>(reflection_.GetEnum(message_, field)->name());
    } else {
      Nested(reflection_.GetMessage(message_, field), field, -1, name,
             out.emplace());
    }
  }

  template <typename T>
  void operator()(const char* name, std::vector<T>& out) {
    const FieldDescriptor* field = Find(name);
    const int count = reflection_.FieldSize(message_, field);
    out.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const std::string element = absl::StrCat(name, "[", i, "]");
      Note(field, i, element);
      Nested(reflection_.GetRepeatedMessage(message_, field, i), field, i,
             element, out[static_cast<size_t>(i)]);
    }
  }

  void operator()(const char*, ScalingSpec& out) {
    const FieldDescriptor* field = reflection_.GetOneofFieldDescriptor(
        message_, message_.GetDescriptor()->FindOneofByName("scaling"));
    if (field == nullptr) return;
    const std::string& name = field->name();
    Note(field, -1, name);
    const Message& nested = reflection_.GetMessage(message_, field);
    if (name == Name(Scaling::kHighPrecision)) {
      Nested(nested, field, -1, name, out.emplace<HighPrecisionSpec>());
    } else if (name == Name(Scaling::kDelayed)) {
      Nested(nested, field, -1, name, out.emplace<DelayedSpec>());
    } else if (name == Name(Scaling::kCurrent)) {
      Nested(nested, field, -1, name, out.emplace<CurrentSpec>());
    } else {
      for (Scaling scaling :
           {Scaling::kRowwise, Scaling::kBlock, Scaling::kMxfp8,
            Scaling::kNvfp4, Scaling::kCustom}) {
        if (name == Name(scaling)) out = NotBuiltSpec{scaling};
      }
    }
  }

 private:
  const FieldDescriptor* Find(const char* name) const {
    return message_.GetDescriptor()->FindFieldByName(name);
  }

  void Note(const FieldDescriptor* field, int index, absl::string_view name) {
    if (locations_ == nullptr) return;
    const TextFormat::ParseLocation at = locations_->GetLocation(field, index);
    const size_t offset = text_.Offset(at.line, at.column);
    const std::string path = absl::StrCat(prefix_, name);
    if (field->enum_type() != nullptr) CheckNamed(*field, path, offset);
    parsed_.source.positions[path] = text_.Position(offset);
  }

  // The parser takes enum values by number too; a recipe must name them.
  void CheckNamed(const FieldDescriptor& field, const std::string& path,
                  size_t offset) {
    const TextToken value = ValueToken(text_.text(), offset);
    if (absl::ascii_isdigit(static_cast<unsigned char>(value.text[0]))) {
      parsed_.faults.emplace_back(
          path,
          absl::StrCat("got ", value.text, ", want ", WantedValues(field)));
    }
  }

  template <typename Spec>
  void Nested(const Message& message, const FieldDescriptor* field, int index,
              absl::string_view name, Spec& out) {
    Reader reader(message,
                  locations_ == nullptr
                      ? nullptr
                      : locations_->GetTreeForNested(field, index),
                  absl::StrCat(prefix_, name, "."), text_, parsed_);
    FieldsOf<Spec>::Visit(out, reader);
  }

  const Message& message_;
  const Reflection& reflection_;
  const TextFormat::ParseInfoTree* locations_;
  const std::string prefix_;
  const SourceText& text_;
  ParsedRecipe& parsed_;
};

}  // namespace

ParsedRecipe SpecFromProto(const proto::Recipe& message,
                           const TextFormat::ParseInfoTree& locations,
                           const SourceText& text) {
  ParsedRecipe parsed;
  Reader reader(message, &locations, "", text, parsed);
  FieldsOf<RecipeSpec>::Visit(parsed.spec, reader);
  return parsed;
}

}  // namespace scalekeeper
