// The parser's one complaint about a recipe, as a person wants to read it.
#ifndef SCALEKEEPER_RECIPE_SYNTAX_FAULT_H_
#define SCALEKEEPER_RECIPE_SYNTAX_FAULT_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/string_view.h"
#include "recipe/source_text.h"

namespace scalekeeper {

// What protobuf's text format parser reported (line and column 0-based).
struct ParserComplaint {
  int line = 0;
  int column = 0;
  std::string message;
};

// "file:line:column: error: field.path: got V, want ...". The place is that of
// the field's name, as with faults of values.
std::string DescribeSyntaxFault(const SourceText& source,
                                absl::string_view file,
                                const ParserComplaint& complaint);

// "E4M3, E5M2 or E2M1": what the field accepts.
std::string WantedValues(const google::protobuf::FieldDescriptor& field);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_SYNTAX_FAULT_H_
