#include "recipe/parse.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
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

// Enough for kMaxParameterDepth objects, three messages each, in a phase's
// rule.
constexpr int kMaxMessageDepth = 64;

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
  parser.SetRecursionLimit(kMaxMessageDepth);
  proto::Recipe message;
  if (!parser.ParseFromString(std::string(text), &message)) {
    return absl::InvalidArgumentError(
        DescribeSyntaxFault(source, file, errors.error()));
  }
  ParsedRecipe parsed = SpecFromProto(message, locations, source);
  parsed.source.file = std::string(file);
  return parsed;
}

}  // namespace scalekeeper
