// Recipe text with lines, for turning a parser's positions into a person's.
#ifndef SCALEKEEPER_RECIPE_SOURCE_TEXT_H_
#define SCALEKEEPER_RECIPE_SOURCE_TEXT_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "recipe/source_map.h"

namespace scalekeeper {

// Borrows the text.
class SourceText {
 public:
  explicit SourceText(absl::string_view text);

  absl::string_view text() const { return text_; }

  // Byte offset of a position of protobuf's tokenizer: 0-based, with tabs
  // widened to multiples of 8 columns. The end of the text if it lies behind.
  size_t Offset(int line, int column) const;

  SourcePosition Position(size_t offset) const;

 private:
  absl::string_view text_;
  std::vector<size_t> line_starts_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_SOURCE_TEXT_H_
