// Lines of a file that may be far larger than memory.
#ifndef SCALEKEEPER_TRACE_LINE_READER_H_
#define SCALEKEEPER_TRACE_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_stream.h"

namespace scalekeeper {

class LineReader {
 public:
  // A longer line is a fault: what is read then is no text.
  static constexpr size_t kMaxLine = size_t{64} << 20;

  // `head` is what was read of the file already.
  LineReader(InputFile file, std::string head)
      : file_(std::move(file)), buffer_(std::move(head)) {}

  // The next line without its end ("\n" or "\r\n"), good until the next call;
  // false after the last. A line that ends with the file counts as one.
  absl::StatusOr<bool> Next(absl::string_view* line);

  size_t number() const { return number_; }  // of the last line, from 1
  const std::string& path() const { return file_.path(); }
  int64_t bytes_read() const { return file_.bytes_read(); }
  // "path:12"
  std::string position() const;
  // InvalidArgument "path:12: error: column "x": text".
  absl::Status Fault(absl::string_view column, absl::string_view text) const;

 private:
  InputFile file_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not given out
  bool at_end_ = false;
  size_t number_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_LINE_READER_H_
