#include "recipe/parse.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "proto/recipe.pb.h"
#include "recipe/source_text.h"
#include "recipe/spec_from_proto.h"
#include "recipe/syntax_fault.h"

namespace scalekeeper {
namespace {

using google::protobuf::TextFormat;

// Keeps the first error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!error_) error_ = ParserComplaint{line, column, message};
  }

  ParserComplaint error() const {
    return error_.value_or(ParserComplaint{0, 0, "cannot be parsed"});
  }

 private:
  std::optional<ParserComplaint> error_;
};

absl::Status FaultAt(absl::string_view file, SourcePosition position,
                     absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat(FaultPrefix(file, position), "error: ", message));
}

// What can be said before looking at the grammar.
absl::Status CheckBytes(const SourceText& source, absl::string_view file) {
  const absl::string_view text = source.text();
  if (text.empty()) {
    return FaultAt(file, {1, 1},
                   "got an empty file, want a recipe with defaults { ... }");
  }
  if (text.size() > kMaxRecipeBytes) {
    return FaultAt(file, {1, 1},
                   absl::StrCat("got a file of more than ", kMaxRecipeBytes,
                                " bytes, want a recipe"));
  }
  const size_t bad = std::min(FirstInvalidUtf8(text), text.find('\0'));
  if (bad < text.size()) {
    return FaultAt(
        file, source.Position(bad),
        absl::StrFormat("got byte 0x%02x, want UTF-8 text in protobuf text "
                        "format",
                        static_cast<unsigned char>(text[bad])));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedRecipe> ParseRecipeText(absl::string_view text,
                                             absl::string_view file) {
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
  const SourceText source(text);
  SK_RETURN_IF_ERROR(CheckBytes(source, file));
  FirstError errors;
  TextFormat::ParseInfoTree locations;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&locations);
  proto::Recipe message;
  if (!parser.ParseFromString(std::string(text), &message)) {
    return absl::InvalidArgumentError(
        DescribeSyntaxFault(source, file, errors.error()));
  }
  ParsedRecipe parsed = SpecFromProto(message, locations, source);
  parsed.source.file = std::string(file);
  return parsed;
}

absl::StatusOr<std::string> ReadRecipeFile(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  std::string text;
  if (file != nullptr) {
    char buffer[65536];
    size_t count = 0;
    while (text.size() <= kMaxRecipeBytes &&
           (count = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
      text.append(buffer, count);
    }
    if (std::ferror(file.get()) == 0) return text;
  }
  const int error = errno;
  const std::string message =
      absl::StrCat(path, ": cannot be read: ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

}  // namespace scalekeeper
