// Where the fields of a recipe stand in its text, and the faults found there.
//
// Field paths are as people read them: "rule[1].grad.delayed.margin". A recipe
// that was built in code has no positions; its faults carry the path alone.
#ifndef SCALEKEEPER_RECIPE_SOURCE_MAP_H_
#define SCALEKEEPER_RECIPE_SOURCE_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

// 1-based line and column, the column counted in bytes; 0:0 is "nowhere".
struct SourcePosition {
  int line = 0;
  int column = 0;
};

struct SourceMap {
  std::string file;  // as shown in errors; empty for a recipe built in code
  absl::flat_hash_map<std::string, SourcePosition> positions;  // by field path
  // By field path: integers that the text spells in another way, as "0x21".
  absl::flat_hash_map<std::string, std::string> spellings;

  // Of the field, else of the nearest enclosing one that is in the text, else
  // the start of the file.
  SourcePosition Find(absl::string_view path) const;

  // "recipe.textproto:7:1", or "" for a recipe built in code.
  std::string Place(absl::string_view path) const;
};

// "file:line:column: " or "recipe: " when there is no file.
std::string FaultPrefix(absl::string_view file, SourcePosition position);

// Collects faults and puts them, in file order, into one InvalidArgument.
class Faults {
 public:
  explicit Faults(const SourceMap& source) : source_(source) {}

  // Adds "file:line:column: error: path: message".
  void Add(absl::string_view path, absl::string_view message);

  // The value as people know it: "0x21 (33)" if that is how the text has it.
  std::string AsWritten(absl::string_view path, int64_t value) const;

  bool empty() const { return faults_.empty(); }
  size_t size() const { return faults_.size(); }
  absl::Status ToStatus() const;

 private:
  struct Fault {
    SourcePosition position;
    std::string line;
  };
  const SourceMap& source_;
  std::vector<Fault> faults_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_SOURCE_MAP_H_
