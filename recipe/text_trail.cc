#include "recipe/text_trail.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace scalekeeper {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

bool Opens(const TextToken& token) {
  return token.text == "{" || token.text == "<";
}

}  // namespace

TextToken NextToken(absl::string_view text, size_t offset) {
  while (offset < text.size()) {
    if (text[offset] == '#') {
      offset = text.find('\n', offset);
      if (offset == absl::string_view::npos) offset = text.size();
    } else if (absl::ascii_isspace(static_cast<unsigned char>(text[offset]))) {
      ++offset;
    } else {
      break;
    }
  }
  if (offset >= text.size()) return {text.size(), ""};
  size_t end = offset + 1;
  const char first = text[offset];
  if (first == '"' || first == '\'') {
    while (end < text.size() && text[end] != first && text[end] != '\n') {
      end += text[end] == '\\' && end + 1 < text.size() ? 2 : 1;
    }
    if (end < text.size() && text[end] == first) ++end;
  } else if (IsWordCharacter(first)) {
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
  }
  return {offset, text.substr(offset, end - offset)};
}

TextToken ValueToken(absl::string_view text, size_t offset) {
  const TextToken name = NextToken(text, offset);
  TextToken token = NextToken(text, name.offset + name.text.size());
  if (token.text == ":") token = NextToken(text, token.offset + 1);
  return token;
}

TextTrail::TextTrail(absl::string_view text, size_t limit,
                     const Descriptor* root) {
  open_.emplace_back().descriptor = root;
  size_t offset = 0;
  for (;;) {
    const TextToken token = NextToken(text, offset);
    if (token.text.empty() || token.offset >= limit) break;
    Read(token);
    offset = token.offset + token.text.size();
  }
}

void TextTrail::Read(const TextToken& token) {
  switch (expect_) {
    case Expect::kName:
      ReadName(token);
      return;
    case Expect::kColon:
      expect_ = Expect::kValue;
      if (token.text == ":") return;
      break;
    case Expect::kValue:
      break;
    case Expect::kListEnd:
      expect_ = token.text == "," ? Expect::kValue : Expect::kName;
      open_.back().in_list = token.text == ",";
      return;
  }
  if (Opens(token)) {
    Enter(token);
  } else if (token.text == "[") {
    open_.back().in_list = true;
  } else if (token.text == "]") {  // an empty list
    open_.back().in_list = false;
    expect_ = Expect::kName;
  } else if (token.text != "-") {
    EndValue();
  }
}

void TextTrail::ReadName(const TextToken& token) {
  if (token.text == "}" || token.text == ">") {
    if (open_.size() > 1) open_.pop_back();
    EndValue();
  } else if (IsWordCharacter(token.text[0])) {
    Open& top = open_.back();
    top.field = std::string(token.text);
    top.field_offset = token.offset;
    top.first.emplace(top.field, token.offset);
    expect_ = Expect::kColon;
  }  // else a separator, or a string that continues the value before
}

void TextTrail::Enter(const TextToken& token) {
  const Open& top = open_.back();
  const FieldDescriptor* field =
      top.descriptor == nullptr ? nullptr
                                : top.descriptor->FindFieldByName(top.field);
  Open inner;
  inner.descriptor = field == nullptr ? nullptr : field->message_type();
  inner.name_offset = top.field_offset;
  inner.path = absl::StrCat(top.path, top.field);
  if (field != nullptr && field->is_repeated()) {
    absl::StrAppend(&inner.path, "[", open_.back().count[top.field]++, "]");
    elements_[inner.path] = top.in_list ? token.offset : top.field_offset;
  }
  absl::StrAppend(&inner.path, ".");
  open_.push_back(std::move(inner));
  expect_ = Expect::kName;
}

void TextTrail::EndValue() {
  expect_ = open_.back().in_list ? Expect::kListEnd : Expect::kName;
}

std::string TextTrail::MessagePath() const {
  const std::string& path = open_.back().path;
  return path.empty() ? "" : path.substr(0, path.size() - 1);
}

const Descriptor* TextTrail::descriptor() const {
  return open_.back().descriptor;
}

std::string TextTrail::FieldPath() const {
  return absl::StrCat(open_.back().path, field());
}

size_t TextTrail::FirstOffsetOf(const std::string& field) const {
  const auto found = open_.back().first.find(field);
  return found == open_.back().first.end() ? 0 : found->second;
}

size_t TextTrail::ElementOffset(const std::string& path) const {
  const auto found = elements_.find(path);
  return found == elements_.end() ? 0 : found->second;
}

}  // namespace scalekeeper
