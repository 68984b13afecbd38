// Writes binary traces: checksummed records (proto/trace.proto).
//
// Without Mode::kReplace records lie in the file as soon as Flush returns: what
// a live run writes survives its crash up to the last flushed step. About
// 4 bytes per slot and step.
//
// Create, Write and Flush allocate; a run gives its steps to a thread of its
// own that writes.
#ifndef SCALEKEEPER_TRACE_BINARY_WRITER_H_
#define SCALEKEEPER_TRACE_BINARY_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_stream.h"
#include "trace/trace_writer.h"

namespace scalekeeper {

class BinaryTraceWriter final : public TraceWriter {
 public:
  // Writes the header. An existing file is replaced.
  static absl::StatusOr<std::unique_ptr<BinaryTraceWriter>> Create(
      const std::string& path, const TraceHeader& header,
      OutputFile::Mode mode = OutputFile::Mode::kDirect);
  ~BinaryTraceWriter() override;

  absl::Status Write(const TraceStep& step) override;
  absl::Status Flush() override { return file_.Flush(); }
  absl::Status Close() override;

 private:
  struct Rep;  // holds messages that are used again and again
  BinaryTraceWriter(OutputFile file, TraceHeader header);
  absl::Status Append();

  OutputFile file_;
  const TraceHeader header_;
  std::unique_ptr<Rep> rep_;
  int64_t steps_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_BINARY_WRITER_H_
