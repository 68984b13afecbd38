// Prints docs/recipe_reference.md from the comments of proto/recipe.proto:
//   recipe_reference proto/recipe.proto > docs/recipe_reference.md
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "google/protobuf/compiler/parser.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace scalekeeper {
namespace {

namespace pb = google::protobuf;
using Path = std::vector<int>;

class Faults : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    std::cerr << "recipe.proto:" << line + 1 << ":" << column + 1 << ": "
              << message << "\n";
  }
};

// Comment text as Markdown: the one space after "//" is taken off; runs of
// lines that are set in by two more become code.
std::string Prose(const std::string& comment) {
  std::string text;
  bool code = false;
  for (absl::string_view line : absl::StrSplit(comment, '\n')) {
    absl::ConsumePrefix(&line, " ");
    const bool set_in = line.size() > 2 && line.substr(0, 2) == "  " &&
                        (code || text.empty() || line[2] != ' ');
    if (set_in != code) {
      absl::StrAppend(&text, set_in ? "\n```\n" : "```\n\n");
      code = set_in;
    }
    absl::StrAppend(&text, set_in ? line.substr(2) : line, "\n");
  }
  if (code) text += "```\n";
  return std::string(absl::StripAsciiWhitespace(text));
}

// The same on one line, for tables.
std::string Line(const std::string& comment) {
  std::string text;
  for (absl::string_view line : absl::StrSplit(comment, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", line);
  }
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*' || c == '_') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class Reference {
 public:
  explicit Reference(const pb::FileDescriptorProto& file) : file_(file) {
    for (const auto& location : file.source_code_info().location()) {
      std::string& comment =
          comments_[Path(location.path().begin(), location.path().end())];
      comment = location.leading_comments();
      if (comment.empty()) comment = location.trailing_comments();
    }
  }

  std::string Text(const std::string& head) const {
    std::string text = absl::StrCat(
        "# Recipe reference\n\n"
        "<!-- Made from proto/recipe.proto by //tools:recipe_reference. -->\n\n",
        head);
    for (int i = 0; i < file_.message_type_size(); ++i) {
      Message(file_.message_type(i), {4, i}, &text);
    }
    return text;
  }

 private:
  std::string CommentOf(const Path& path) const {
    const auto it = comments_.find(path);
    return it == comments_.end() ? "" : it->second;
  }

  static std::string TypeOf(const pb::FieldDescriptorProto& field) {
    std::string type;
    switch (field.type()) {
      case pb::FieldDescriptorProto::TYPE_INT64:
        type = "integer";
        break;
      case pb::FieldDescriptorProto::TYPE_DOUBLE:
        type = "number";
        break;
      case pb::FieldDescriptorProto::TYPE_BOOL:
        type = "bool";
        break;
      case pb::FieldDescriptorProto::TYPE_STRING:
        type = "text";
        break;
      default:
        type = std::string(absl::StripPrefix(field.type_name(),
                                             "google.protobuf."));
        if (type == field.type_name() && field.type_name() != "Format") {
          type = absl::StrCat("[", type, "](#",
                              absl::AsciiStrToLower(type), ")");
        }
    }
    return field.label() == pb::FieldDescriptorProto::LABEL_REPEATED
               ? type + ", repeated"
               : type;
  }

  static Path Child(Path path, int field, int index) {
    path.push_back(field);
    path.push_back(index);
    return path;
  }

  void Message(const pb::DescriptorProto& message, const Path& path,
               std::string* text) const {
    absl::StrAppend(text, "## ", message.name(), "\n\n",
                    Prose(CommentOf(path)), "\n\n");
    absl::StrAppend(text, "| field | type | |\n| --- | --- | --- |\n");
    std::string inherited;  // fields without a comment of their own follow one
    for (int i = 0; i < message.field_size(); ++i) {
      const pb::FieldDescriptorProto& field = message.field(i);
      std::string comment = Line(CommentOf(Child(path, 2, i)));
      if (comment.empty()) comment = inherited.empty() ? "" : "the same";
      if (!comment.empty() && comment != "the same") inherited = comment;
      std::string type = TypeOf(field);
      for (int e = 0; e < message.enum_type_size(); ++e) {
        const std::string& name = message.enum_type(e).name();
        if (field.type_name() == name) type = absl::StrCat("one of ", name);
      }
      absl::StrAppend(text, "| `", field.name(), "` | ", type, " | ", comment,
                      " |\n");
    }
    *text += '\n';
    for (int e = 0; e < message.enum_type_size(); ++e) {
      const pb::EnumDescriptorProto& values = message.enum_type(e);
      const Path at = Child(path, 4, e);
      absl::StrAppend(text, "| ", values.name(), " | |\n| --- | --- |\n");
      for (int v = 0; v < values.value_size(); ++v) {
        absl::StrAppend(text, "| `", values.value(v).name(), "` | ",
                        Line(CommentOf(Child(at, 2, v))), " |\n");
      }
      *text += '\n';
    }
  }

  const pb::FileDescriptorProto& file_;
  std::map<Path, std::string> comments_;
};

// What the file says of itself, above its first statement.
std::string Head(const std::string& source) {
  std::string comment;
  for (absl::string_view line : absl::StrSplit(source, '\n')) {
    if (!absl::ConsumePrefix(&line, "//")) break;
    absl::StrAppend(&comment, line, "\n");
  }
  return Prose(comment) + "\n\n";
}

int Run(const std::string& path) {
  const absl::StatusOr<std::string> source = ReadFile(path);
  if (!source.ok()) {
    std::cerr << source.status().message() << "\n";
    return 2;
  }
  pb::io::ArrayInputStream stream(source->data(),
                                  static_cast<int>(source->size()));
  Faults faults;
  pb::io::Tokenizer tokenizer(&stream, &faults);
  pb::compiler::Parser parser;
  parser.RecordErrorsTo(&faults);
  pb::FileDescriptorProto file;
  if (!parser.Parse(&tokenizer, &file)) return 1;
  std::cout << Reference(file).Text(Head(*source));
  return 0;
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: recipe_reference proto/recipe.proto\n";
    return 2;
  }
  return scalekeeper::Run(argv[1]);
}
