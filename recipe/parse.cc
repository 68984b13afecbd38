#include "recipe/parse.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/recipe.pb.h"
#include "recipe/source_text.h"
#include "recipe/spec_from_proto.h"

namespace scalekeeper {
namespace {

using google::protobuf::TextFormat;

// Keeps the first error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!error_) error_ = {line, column, message};
  }

  struct Error {
    int line = 0;
    int column = 0;
    std::string message;
  };
  const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace

absl::StatusOr<ParsedRecipe> ParseRecipeText(absl::string_view text,
                                             absl::string_view file) {
  const SourceText source(text);
  FirstError errors;
  TextFormat::ParseInfoTree locations;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&locations);
  parser.SetRecursionLimit(32);
  proto::Recipe message;
  if (!parser.ParseFromString(std::string(text), &message)) {
    const FirstError::Error error =
        errors.error().value_or(FirstError::Error{0, 0, "cannot be parsed"});
    const size_t offset = source.Offset(error.line, error.column);
    return absl::InvalidArgumentError(absl::StrCat(
        FaultPrefix(file, source.Position(offset)), "error: ", error.message));
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
