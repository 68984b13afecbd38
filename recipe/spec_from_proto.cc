#include "recipe/spec_from_proto.h"

#include <google/protobuf/struct.pb.h>

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "recipe/schema_enum.h"
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

// google.protobuf.Struct -> Parameters. By reflection: the inline accessors of
// types that the protobuf library was built with need not fit the layout that
// it was built for (a sanitizer's build adds members).
struct ParametersReader {
  std::string path;  // of the field, for faults
  ParsedRecipe& parsed;

  Parameters Read(const Message& message) {
    const Reflection& reflection = *message.GetReflection();
    const FieldDescriptor* fields =
        message.GetDescriptor()->FindFieldByName("fields");
    const FieldDescriptor* key = fields->message_type()->map_key();
    const FieldDescriptor* value = fields->message_type()->map_value();
    Parameters parameters;
    for (int i = 0; i < reflection.FieldSize(message, fields); ++i) {
      const Message& entry = reflection.GetRepeatedMessage(message, fields, i);
      const std::string name = entry.GetReflection()->GetString(entry, key);
      parameters.emplace(
          name,
          ReadValue(name, entry.GetReflection()->GetMessage(entry, value)));
    }
    return parameters;
  }

  // Of a google.protobuf.Value. `name` is that of the field of `parameters`
  // that it belongs to.
  ParameterValue ReadValue(const std::string& name, const Message& message) {
    using google::protobuf::Value;
    const Reflection& reflection = *message.GetReflection();
    const FieldDescriptor* kind = reflection.GetOneofFieldDescriptor(
        message, message.GetDescriptor()->FindOneofByName("kind"));
    switch (kind == nullptr ? 0 : kind->number()) {
      case Value::kNullValueFieldNumber:
        return {nullptr};
      case Value::kNumberValueFieldNumber:
        return {reflection.GetDouble(message, kind)};
      case Value::kStringValueFieldNumber:
        return {reflection.GetString(message, kind)};
      case Value::kBoolValueFieldNumber:
        return {reflection.GetBool(message, kind)};
      case Value::kStructValueFieldNumber:
        return {Read(reflection.GetMessage(message, kind))};
      case Value::kListValueFieldNumber: {
        const Message& elements = reflection.GetMessage(message, kind);
        const Reflection& list_reflection = *elements.GetReflection();
        const FieldDescriptor* values =
            elements.GetDescriptor()->FindFieldByName("values");
        ParameterList list;
        for (int i = 0; i < list_reflection.FieldSize(elements, values); ++i) {
          list.push_back(ReadValue(
              name, list_reflection.GetRepeatedMessage(elements, values, i)));
        }
        return {std::move(list)};
      }
      default:
        break;
    }
    parsed.faults.emplace_back(
        path, absl::StrCat("got no value for ", Quoted(name),
                           ", want one of null_value, number_value, "
                           "string_value, bool_value, struct_value, "
                           "list_value"));
    return {nullptr};
  }
};

// Visits the fields of one spec and fills them from the message of that type.
class Reader {
 public:
  Reader(const Message& message, const TextFormat::ParseInfoTree* locations,
         std::string prefix, const SourceText& text, const TextTrail& trail,
         ParsedRecipe& parsed)
      : message_(message),
        reflection_(*message.GetReflection()),
        locations_(locations),
        prefix_(std::move(prefix)),
        text_(text),
        trail_(trail),
        parsed_(parsed) {}

  template <typename T>
  void operator()(const char* name, std::optional<T>& out) {
    const FieldDescriptor* field = Find(name);
    if (!reflection_.HasField(message_, field)) return;
    const size_t offset = Note(field, -1, name);
    if constexpr (std::is_same_v<T, int64_t>) {
      out = reflection_.GetInt64(message_, field);
      NoteSpelling(*out, offset, name);
    } else if constexpr (std::is_same_v<T, double>) {
      out = reflection_.GetDouble(message_, field);
    } else if constexpr (std::is_same_v<T, bool>) {
      out = reflection_.GetBool(message_, field);
    } else if constexpr (std::is_same_v<T, std::string>) {
      out = reflection_.GetString(message_, field);
    } else if constexpr (std::is_enum_v<T>) {
      out = EnumFromName<T>(reflection_.GetEnum(message_, field)->name());
    } else if constexpr (std::is_same_v<T, Parameters>) {
      ParametersReader reader = {absl::StrCat(prefix_, name), parsed_};
      out = reader.Read(reflection_.GetMessage(message_, field));
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
    Alternative<1>(nested, field, out);
  }

 private:
  // Fills the alternative of `out`, the I-th or a later one, that the field
  // names.
  template <size_t I>
  void Alternative(const Message& message, const FieldDescriptor* field,
                   ScalingSpec& out) {
    if constexpr (I < std::variant_size_v<ScalingSpec>) {
      ScalingSpec spec(std::in_place_index<I>);
      if (field->name() == Name(ScalingOf(spec))) {
        Nested(message, field, -1, field->name(), std::get<I>(spec));
        out = std::move(spec);
      } else {
        Alternative<I + 1>(message, field, out);
      }
    }
  }

  const FieldDescriptor* Find(const char* name) const {
    return message_.GetDescriptor()->FindFieldByName(name);
  }

  // Keeps the place of the field, or of its element `index`; its offset.
  size_t Note(const FieldDescriptor* field, int index, absl::string_view name) {
    const std::string path = absl::StrCat(prefix_, name);
    size_t offset = 0;
    if (index < 0) {
      const TextFormat::ParseLocation at =
          locations_->GetLocation(field, index);
      offset = text_.Offset(at.line, at.column);
    } else {  // of a [ list ] the parser keeps one place only
      offset = trail_.ElementOffset(path);
    }
    if (field->enum_type() != nullptr) CheckNamed(*field, path, offset);
    parsed_.source.positions[path] = text_.Position(offset);
    return offset;
  }

  void NoteSpelling(int64_t value, size_t offset, absl::string_view name) {
    TextToken token = ValueToken(text_.text(), offset);
    std::string spelling(token.text);
    if (spelling == "-") {
      token = NextToken(text_.text(), token.offset + 1);
      absl::StrAppend(&spelling, token.text);
    }
    if (spelling != absl::StrCat(value)) {
      parsed_.source.spellings[absl::StrCat(prefix_, name)] = spelling;
    }
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
    Reader reader(message, locations_->GetTreeForNested(field, index),
                  absl::StrCat(prefix_, name, "."), text_, trail_, parsed_);
    FieldsOf<Spec>::Visit(out, reader);
  }

  const Message& message_;
  const Reflection& reflection_;
  const TextFormat::ParseInfoTree* locations_;
  const std::string prefix_;
  const SourceText& text_;
  const TextTrail& trail_;  // of the whole text
  ParsedRecipe& parsed_;
};

}  // namespace

ParsedRecipe SpecFromProto(const proto::Recipe& message,
                           const TextFormat::ParseInfoTree& locations,
                           const SourceText& text) {
  ParsedRecipe parsed;
  const TextTrail trail(text.text(), text.text().size(),
                        message.GetDescriptor());
  Reader reader(message, &locations, "", text, trail, parsed);
  FieldsOf<RecipeSpec>::Visit(parsed.spec, reader);
  return parsed;
}

}  // namespace scalekeeper
