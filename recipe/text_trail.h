// Where in a recipe's structure an offset of its text lies.
//
// Protobuf's parser says line, column and an English sentence; people want the
// field's path. A TextTrail walks the text up to the fault (so far the parser
// has accepted it) and keeps which messages are open and which field was last.
//
// Example:
//   TextTrail trail("defaults { all { format: hybrid", 25, descriptor);
//   trail.MessagePath();  // "defaults.all"
//   trail.field();        // "format"
#ifndef SCALEKEEPER_RECIPE_TEXT_TRAIL_H_
#define SCALEKEEPER_RECIPE_TEXT_TRAIL_H_

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

// A word (name, number), a quoted string or one other character.
struct TextToken {
  size_t offset = 0;  // that of the end of the text for the empty last token
  absl::string_view text;
};

// The first token at or after `offset`, comments and blanks skipped.
TextToken NextToken(absl::string_view text, size_t offset);

// The first token of the value of the field whose name stands at `offset`.
TextToken ValueToken(absl::string_view text, size_t offset);

class TextTrail {
 public:
  // Reads the tokens that start before `limit`. Borrows `text`.
  TextTrail(absl::string_view text, size_t limit,
            const google::protobuf::Descriptor* root);

  // Of the innermost open message; "" at the top.
  std::string MessagePath() const;
  // Its type; null after a field that the schema lacks.
  const google::protobuf::Descriptor* descriptor() const;
  // Where the name of the field stands that opened it.
  size_t opened_at() const { return open_.back().name_offset; }

  // The field of that message that was named last, and where; "" if none.
  const std::string& field() const { return open_.back().field; }
  size_t field_offset() const { return open_.back().field_offset; }
  // "defaults.all.format".
  std::string FieldPath() const;
  // Its first appearance in that message.
  size_t FirstOffsetOf(const std::string& field) const;

  // Where the element of a repeated message starts, by its path "rule[1]": at
  // the field's name, or at its "{" in a [ list ]. 0 if there is none.
  size_t ElementOffset(const std::string& path) const;

 private:
  enum class Expect { kName, kColon, kValue, kListEnd };
  struct Open {
    const google::protobuf::Descriptor* descriptor = nullptr;
    std::string path;        // with a dot at the end, "" at the top
    size_t name_offset = 0;  // of the field that opened it
    bool in_list = false;    // this message's last field has a [ list ]
    std::string field;
    size_t field_offset = 0;
    absl::flat_hash_map<std::string, size_t> first;  // offsets, by field
    absl::flat_hash_map<std::string, int> count;     // elements, by field
  };

  void Read(const TextToken& token);
  void ReadName(const TextToken& token);
  void Enter(const TextToken& token);
  void EndValue();

  std::vector<Open> open_;  // never empty
  absl::flat_hash_map<std::string, size_t> elements_;
  Expect expect_ = Expect::kName;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_TEXT_TRAIL_H_
