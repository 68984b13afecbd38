#include "recipe/syntax_fault.h"

#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "proto/recipe.pb.h"
#include "recipe/field_limits.h"
#include "recipe/text_trail.h"

namespace scalekeeper {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// A fault without the file name.
struct Fault {
  size_t offset = 0;
  std::string path;  // may be empty
  std::string message;
};

std::vector<std::string> FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(descriptor.field_count()));
  for (int i = 0; i < descriptor.field_count(); ++i) {
    names.push_back(descriptor.field(i)->name());
  }
  return names;
}

std::vector<std::string> EnumNames(const FieldDescriptor& field) {
  std::vector<std::string> names;
  if (field.enum_type() == nullptr) return names;
  names.reserve(static_cast<size_t>(field.enum_type()->value_count()));
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    names.push_back(field.enum_type()->value(i)->name());
  }
  return names;
}

// A token as an error shows it.
std::string Shown(absl::string_view token) {
  if (token.empty()) return "the end of the file";
  if (token.size() > 64) return absl::StrCat(token.substr(0, 61), "...");
  return std::string(token);
}

Fault UnknownField(const TextTrail& trail) {
  Fault fault = {trail.field_offset(), trail.MessagePath(),
                 absl::StrCat("unknown field ", Quoted(trail.field()))};
  if (trail.descriptor() == google::protobuf::Struct::descriptor()) {
    absl::StrAppend(&fault.message,
                    ", want fields { key: ", Quoted(trail.field()),
                    " value { number_value: ... } }");
  } else if (trail.descriptor() != nullptr) {
    const std::vector<std::string> names = FieldNames(*trail.descriptor());
    const std::string hint = DidYouMean(trail.field(), names);
    absl::StrAppend(&fault.message,
                    hint.empty() ? absl::StrCat(", want one of ",
                                                absl::StrJoin(names, ", "))
                                 : hint);
  }
  return fault;
}

Fault GivenTwice(const SourceText& source, const TextTrail& trail) {
  const SourcePosition first =
      source.Position(trail.FirstOffsetOf(trail.field()));
  return {trail.field_offset(), trail.FieldPath(),
          absl::StrCat("given twice, want it once (first at ", first.line, ":",
                       first.column, ")")};
}

Fault TwoOfOneof(const TextTrail& trail, absl::string_view complaint) {
  constexpr absl::string_view kBefore = "along with field \"";
  const size_t begin = complaint.find(kBefore) + kBefore.size();
  const absl::string_view other =
      complaint.substr(begin, complaint.find('"', begin) - begin);
  const bool is_scaling = trail.descriptor() == proto::Policy::descriptor();
  return {trail.field_offset(), trail.FieldPath(),
          absl::StrCat("given beside ", other, ", want one ",
                       is_scaling ? "scaling" : "of them")};
}

Fault WrongValue(const SourceText& source, const TextTrail& trail,
                 const FieldDescriptor& field) {
  const TextToken value = ValueToken(source.text(), trail.field_offset());
  const std::vector<std::string> names = EnumNames(field);
  const bool quoted_name = !names.empty() && absl::StartsWith(value.text, "\"");
  return {
      trail.field_offset(), trail.FieldPath(),
      absl::StrCat(
          "got ", Shown(value.text), ", want ", WantedValues(field),
          quoted_name ? ", without quotes" : DidYouMean(value.text, names))};
}

bool StartsWithAny(absl::string_view text,
                   std::initializer_list<absl::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](absl::string_view s) {
    return absl::StartsWith(text, s);
  });
}

// What the tokenizer says of a number that it cannot read.
bool IsAboutNumber(absl::string_view said) {
  return StartsWithAny(
      said,
      {"\"0x\" must be followed", "Numbers starting with leading zero",
       "Hex and octal numbers", "Already saw decimal point",
       "Need space between number", "Expect a decimal number",
       "Invalid float number", "Need space between identifier and decimal",
       "\"e\" must be followed"});
}

// ... and of a quoted text; empty if `said` is about something else.
absl::string_view WantedOfText(absl::string_view said) {
  if (StartsWithAny(said, {"String literals cannot cross line boundaries",
                           "Unexpected end of string"})) {
    return "text that a quote ends on its line";
  }
  if (StartsWithAny(
          said, {"Invalid escape sequence", "Expected hex digits for",
                 "Expected four hex digits", "Expected eight hex digits"})) {
    return "text with \"\\\\\" for a backslash (or an escape such as \\n, "
           "\\\", \\x41)";
  }
  return "";
}

Fault EndOfText(const SourceText& source, const TextTrail& trail) {
  Fault fault = {source.text().size(), trail.MessagePath(),
                 "got the end of the file, want \"}\""};
  if (!fault.path.empty()) {
    const SourcePosition at = source.Position(trail.opened_at());
    absl::StrAppend(&fault.message, " (opened at ", at.line, ":", at.column,
                    ")");
  }
  return fault;
}

Fault Classify(const SourceText& source, const ParserComplaint& complaint) {
  const std::string& said = complaint.message;
  const size_t offset = source.Offset(complaint.line, complaint.column);
  const TextTrail trail(source.text(), offset, proto::Recipe::descriptor());
  const FieldDescriptor* field =
      trail.descriptor() == nullptr
          ? nullptr
          : trail.descriptor()->FindFieldByName(trail.field());
  if (absl::StrContains(said, "has no field named")) {
    return UnknownField(trail);
  }
  if (absl::StrContains(said, "is specified multiple times")) {
    return GivenTwice(source, trail);
  }
  if (absl::StrContains(said, "is specified along with field")) {
    return TwoOfOneof(trail, said);
  }
  if (absl::StrContains(said, "recursion limit")) {
    return {offset, "", "got messages nested too deep, want fewer levels"};
  }
  const absl::string_view wanted_of_text = WantedOfText(said);
  if (!wanted_of_text.empty() && field != nullptr) {
    const TextToken value = ValueToken(source.text(), trail.field_offset());
    return {trail.field_offset(), trail.FieldPath(),
            absl::StrCat("got ", Shown(value.text), ", want ", wanted_of_text)};
  }
  const TextToken token = NextToken(source.text(), offset);
  if (absl::StrContains(said, "Expected identifier") && token.text.empty()) {
    return EndOfText(source, trail);
  }
  if (absl::StrContains(said, "Expected identifier")) {
    return {offset, trail.MessagePath(),
            absl::StrCat("got ", Shown(token.text), ", want a field name",
                         trail.MessagePath().empty() ? "" : " or \"}\"")};
  }
  const bool about_value =
      IsAboutNumber(said) ||
      StartsWithAny(said,
                    {"Expected ", "Integer out of range",
                     "Invalid value for boolean", "Unknown enumeration value"});
  if (about_value && field != nullptr) {
    if (said == absl::StrCat("Expected \":\", found \"", token.text, "\".") &&
        token.text != "{" && token.text != "<") {
      return {trail.field_offset(), trail.FieldPath(),
              absl::StrCat("got ", Shown(token.text), ", want \":\"")};
    }
    return WrongValue(source, trail, *field);
  }
  // The rest comes from the tokenizer and is about characters, not fields.
  if (StartsWithAny(said, {"Interpreting non ascii codepoint",
                           "Invalid control characters",
                           "Proto file starts with 0xEF"})) {
    return {offset, trail.MessagePath(),
            "got a character that only comments and quoted text may contain"};
  }
  std::string message = said;
  if (!message.empty()) message[0] = absl::ascii_tolower(message[0]);
  if (absl::EndsWith(message, ".")) message.pop_back();
  return {offset, trail.MessagePath(), message};
}

}  // namespace

std::string WantedValues(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return "{ ... }";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names = EnumNames(field);
      std::string last = names.back();
      names.pop_back();
      if (names.empty()) return last;
      return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text in double quotes";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a decimal number";
    default: {
      const std::string range = LimitsOf(field.name()).Want();
      return range == "an integer" ? range
                                   : absl::StrCat("an integer, ", range);
    }
  }
}

std::string DescribeSyntaxFault(const SourceText& source,
                                absl::string_view file,
                                const ParserComplaint& complaint) {
  const Fault fault = Classify(source, complaint);
  return absl::StrCat(FaultPrefix(file, source.Position(fault.offset)),
                      "error: ", fault.path, fault.path.empty() ? "" : ": ",
                      fault.message);
}

}  // namespace scalekeeper
