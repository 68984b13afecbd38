// Prints docs/recipe_reference.md, made from the comments of
// proto/recipe.proto:
//   recipe_reference proto/recipe.proto > docs/recipe_reference.md
//
// Reads what that file is made of: // comments above what they explain (or
// behind an enum's value), messages, their enums, fields and one oneof.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "re2/re2.h"

namespace scalekeeper {
namespace {

using Lines = std::vector<std::string>;

struct Field {
  std::string name;
  std::string type;
  Lines comment;
};

struct Enum {
  std::string name;
  std::vector<Field> values;
};

struct Message {
  std::string name;
  Lines comment;
  std::vector<Field> fields;
  std::vector<Enum> enums;
};

struct Schema {
  Lines head;
  std::vector<Message> messages;
};

Schema ReadSchema(const std::string& source) {
  static const RE2 kBlock("(message|enum|oneof) (\\w+) \\{");
  static const RE2 kField(
      "(?:(optional|repeated) )?([\\w.]+) (\\w+) = \\d+(?: \\[.*\\])?;.*");
  static const RE2 kValue("(\\w+) = \\d+;(?:\\s*//\\s*(.*))?");
  Schema schema;
  Lines comment;
  std::vector<std::string> open;
  bool in_head = true;
  for (const absl::string_view raw : absl::StrSplit(source, '\n')) {
    absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (absl::ConsumePrefix(&line, "//")) {
      absl::ConsumePrefix(&line, " ");
      (in_head ? schema.head : comment).emplace_back(line);
      continue;
    }
    in_head = false;
    const re2::StringPiece text(line.data(), line.size());
    std::string kind, name, type, behind;
    if (RE2::FullMatch(text, kBlock, &kind, &name)) {
      open.push_back(kind);
      if (kind == "message") schema.messages.push_back({name, comment, {}, {}});
      if (kind == "enum") schema.messages.back().enums.push_back({name, {}});
      if (kind == "oneof") {
        schema.messages.back().fields.push_back({"", "", comment});
      }
    } else if (!open.empty() && open.back() == "enum" &&
               RE2::FullMatch(text, kValue, &name, &behind)) {
      if (!behind.empty()) comment = {behind};
      schema.messages.back().enums.back().values.push_back({name, "", comment});
    } else if (!open.empty() &&
               RE2::FullMatch(text, kField, &kind, &type, &name)) {
      if (kind == "repeated") type += ", repeated";
      schema.messages.back().fields.push_back({name, type, comment});
    } else if (!open.empty() && line == "}") {
      open.pop_back();
    }
    comment.clear();
  }
  return schema;
}

// Paragraphs; lines that are set in are code.
std::string Prose(const Lines& comment) {
  std::string text;
  bool code = false;
  for (const std::string& line : comment) {
    const bool set_in = absl::StartsWith(line, "  ");
    if (set_in != code) absl::StrAppend(&text, set_in ? "\n```\n" : "```\n");
    code = set_in;
    absl::StrAppend(&text, set_in ? line.substr(2) : line, "\n");
  }
  return text + (code ? "```\n" : "");
}

// One line, for a cell of a table; what is set in comes as code.
std::string Cell(const Lines& comment) {
  std::string text;
  for (const std::string& line : comment) {
    if (absl::StartsWith(line, "  ")) {
      absl::StrAppend(&text, " `", absl::StripAsciiWhitespace(line), "`");
      continue;
    }
    std::string escaped;
    for (const char c : line) {
      if (c == '|' || c == '<' || c == '*') escaped += '\\';
      escaped += c;
    }
    absl::StrAppend(&text, text.empty() ? "" : " ", escaped);
  }
  return text;
}

std::string TypeText(const Schema& schema, const Message& message,
                     const std::string& type) {
  const std::pair<const char*, const char*> kPlain[] = {
      {"int64", "integer"},
      {"double", "number"},
      {"string", "text"},
      {"google.protobuf.Struct", "JSON object"}};
  std::string base = type.substr(0, type.find(','));
  const std::string rest = type.substr(base.size());
  for (const auto& [from, to] : kPlain) {
    if (base == from) return to + rest;
  }
  for (const Message& other : schema.messages) {
    if (other.name == base) {
      return absl::StrCat("[", base, "](#", absl::AsciiStrToLower(base), ")",
                          rest);
    }
  }
  for (const Enum& values : message.enums) {
    if (values.name == base) return absl::StrCat(base, ", below", rest);
  }
  return type;
}

std::string Markdown(const Schema& schema) {
  std::string text = absl::StrCat(
      "# Recipe reference\n\nMade from the comments of `proto/recipe.proto`; "
      "after a change there, `bazel run //tools:recipe_reference --\n"
      "$PWD/proto/recipe.proto > docs/recipe_reference.md`.\n\n",
      Prose(schema.head));
  for (const Message& message : schema.messages) {
    absl::StrAppend(&text, "\n## ", message.name, "\n\n",
                    Prose(message.comment),
                    "\n| field | type | meaning |\n| --- | --- | --- |\n");
    for (const Field& field : message.fields) {
      const std::string meaning = Cell(field.comment);
      if (field.name.empty()) {
        absl::StrAppend(&text, "| one of the fields below | | ", meaning,
                        " |\n");
        continue;
      }
      absl::StrAppend(&text, "| `", field.name, "` | ",
                      TypeText(schema, message, field.type), " | ",
                      meaning.empty() ? "(as the field above)" : meaning,
                      " |\n");
    }
    for (const Enum& values : message.enums) {
      absl::StrAppend(&text, "\n| ", values.name,
                      " | meaning |\n| --- | --- |\n");
      for (const Field& value : values.values) {
        absl::StrAppend(&text, "| `", value.name, "` | ", Cell(value.comment),
                        " |\n");
      }
    }
  }
  return text;
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: recipe_reference proto/recipe.proto\n";
    return 2;
  }
  const absl::StatusOr<std::string> source = scalekeeper::ReadFile(argv[1]);
  if (!source.ok()) {
    std::cerr << source.status().message() << "\n";
    return 2;
  }
  std::cout << scalekeeper::Markdown(scalekeeper::ReadSchema(*source));
  return 0;
}
