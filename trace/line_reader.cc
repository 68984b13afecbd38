#include "trace/line_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

constexpr size_t kBlock = size_t{1} << 18;

}  // namespace

absl::StatusOr<bool> LineReader::Next(absl::string_view* line) {
  size_t searched = begin_;
  size_t end = std::string::npos;
  while ((end = buffer_.find('\n', searched)) == std::string::npos &&
         !at_end_) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    if (searched > kMaxLine) {
      ++number_;
      return Fault("", "a line of more than 64 MiB, want a CSV");
    }
    SK_RETURN_IF_ERROR(file_.Read(kBlock, &buffer_));
    at_end_ = buffer_.size() - searched < kBlock;
  }
  ++number_;
  if (end == std::string::npos) {
    end = buffer_.size();
    if (begin_ == end) return false;
  }
  *line = absl::StripSuffix(
      absl::string_view(buffer_).substr(begin_, end - begin_), "\r");
  begin_ = end < buffer_.size() ? end + 1 : end;
  return true;
}

std::string LineReader::position() const {
  return absl::StrCat(path(), ":", number_);
}

absl::Status LineReader::Fault(absl::string_view column,
                               absl::string_view text) const {
  return absl::InvalidArgumentError(absl::StrCat(
      position(), ": error: ",
      column.empty() ? "" : absl::StrCat("column ", Quoted(column), ": "),
      text));
}

}  // namespace scalekeeper
