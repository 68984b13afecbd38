// TraceWriter: where recorded amaxes go; a binary file or a CSV.
//
// Order of calls: Write for each step, then Close. Threads: one at a time.
// Outcome: an error of the file system names the path; a step that does not fit
// the header is InvalidArgument and leaves the file as it was.
//
// Example:
//   SK_ASSIGN_OR_RETURN(auto writer,
//                       BinaryTraceWriter::Create("rank0.sktrace", header));
//   SK_RETURN_IF_ERROR(writer->Write(step));
//   SK_RETURN_IF_ERROR(writer->Close());
#ifndef SCALEKEEPER_TRACE_TRACE_WRITER_H_
#define SCALEKEEPER_TRACE_TRACE_WRITER_H_

#include "absl/status/status.h"
#include "trace/trace.h"

namespace scalekeeper {

class TraceWriter {
 public:
  virtual ~TraceWriter() = default;

  virtual absl::Status Write(const TraceStep& step) = 0;
  // Gives what is buffered to the operating system.
  virtual absl::Status Flush() = 0;
  // Flushes, and says that the run came to its end. Nothing may follow.
  virtual absl::Status Close() = 0;
};

// What both writers check: as many amaxes as columns, step >= 0, columns of
// histograms that exist.
absl::Status CheckTraceStep(const TraceHeader& header, const TraceStep& step);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_TRACE_WRITER_H_
