#include "recipe/source_map.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace scalekeeper {

SourcePosition SourceMap::Find(absl::string_view path) const {
  if (file.empty()) return {};
  while (!path.empty()) {
    auto found = positions.find(path);
    if (found != positions.end()) return found->second;
    const size_t dot = path.rfind('.');
    if (dot == absl::string_view::npos) break;
    path = path.substr(0, dot);
  }
  return {1, 1};
}

std::string SourceMap::Place(absl::string_view path) const {
  if (file.empty()) return "";
  const SourcePosition p = Find(path);
  return absl::StrCat(file, ":", p.line, ":", p.column);
}

std::string FaultPrefix(absl::string_view file, SourcePosition position) {
  if (file.empty()) return "recipe: ";
  return absl::StrCat(file, ":", position.line, ":", position.column, ": ");
}

void Faults::Add(absl::string_view path, absl::string_view message) {
  const SourcePosition position = source_.Find(path);
  std::string line = absl::StrCat(FaultPrefix(source_.file, position),
                                  "error: ", path, ": ", message);
  // A fault is one line, whatever text of the recipe it quotes.
  absl::StrReplaceAll({{"\n", "\\n"}, {"\r", "\\r"}}, &line);
  faults_.push_back({position, std::move(line)});
}

std::string Faults::AsWritten(absl::string_view path, int64_t value) const {
  const auto spelling = source_.spellings.find(path);
  if (spelling == source_.spellings.end()) return absl::StrCat(value);
  return absl::StrCat(spelling->second, " (", value, ")");
}

absl::Status Faults::ToStatus() const {
  if (faults_.empty()) return absl::OkStatus();
  std::vector<const Fault*> sorted;
  sorted.reserve(faults_.size());
  for (const Fault& fault : faults_) sorted.push_back(&fault);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Fault* a, const Fault* b) {
                     return std::tie(a->position.line, a->position.column) <
                            std::tie(b->position.line, b->position.column);
                   });
  std::string text;
  for (const Fault* fault : sorted) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", fault->line);
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace scalekeeper
