#include "recipe/source_text.h"

#include <algorithm>

namespace scalekeeper {

SourceText::SourceText(absl::string_view text) : text_(text) {
  line_starts_.push_back(0);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_starts_.push_back(i + 1);
  }
}

size_t SourceText::Offset(int line, int column) const {
  constexpr int kTabWidth = 8;  // of google::protobuf::io::Tokenizer
  if (line < 0) return 0;
  if (static_cast<size_t>(line) >= line_starts_.size()) return text_.size();
  size_t offset = line_starts_[static_cast<size_t>(line)];
  for (int at = 0; at < column && offset < text_.size(); ++offset) {
    at += text_[offset] == '\t' ? kTabWidth - at % kTabWidth : 1;
  }
  return offset;
}

SourcePosition SourceText::Position(size_t offset) const {
  const auto next =
      std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const auto line = next - line_starts_.begin();  // 1-based
  return {static_cast<int>(line), static_cast<int>(offset - *(next - 1)) + 1};
}

}  // namespace scalekeeper
