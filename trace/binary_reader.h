// Reads binary traces: checksummed records (proto/trace.proto).
//
// A record whose checksum is wrong, or that the file's end cuts off, ends the
// trace: what lies before it is good and is given out, end() says where it was
// and how many bytes follow.
#ifndef SCALEKEEPER_TRACE_BINARY_READER_H_
#define SCALEKEEPER_TRACE_BINARY_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_stream.h"
#include "trace/trace_reader.h"

namespace scalekeeper {

class BinaryTraceReader final : public TraceReader {
 public:
  // Reads the header. `head` is what was read of the file already.
  static absl::StatusOr<std::unique_ptr<BinaryTraceReader>> Create(
      InputFile file, std::string head);
  ~BinaryTraceReader() override;

  const TraceHeader& header() const override { return header_; }
  absl::StatusOr<bool> Next(TraceStep* step) override;
  TraceEnd end() const override { return end_; }
  std::string position() const override;
  int64_t bytes_read() const override { return file_.bytes_read(); }

 private:
  struct Rep;  // holds the message that is used again and again
  BinaryTraceReader(InputFile file, std::string head);
  absl::Status ReadHeader();
  // Into the message; false at the end, whole or torn.
  absl::StatusOr<bool> ReadRecord();
  // Makes at least `count` bytes available at begin_, or all that is left.
  absl::Status Fill(size_t count);
  absl::Status Contradiction(absl::string_view what) const;

  InputFile file_;
  std::string buffer_;
  size_t begin_ = 0;    // of what is not used yet
  int64_t offset_ = 0;  // of begin_, in the file
  bool at_file_end_ = false;
  std::unique_ptr<Rep> rep_;
  TraceHeader header_;
  TraceEnd end_;
  bool ended_ = false;
  int64_t steps_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_BINARY_READER_H_
