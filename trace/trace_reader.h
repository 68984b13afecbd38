// TraceReader: a trace of one rank, read step by step.
//
// Memory is that of one step, whatever the file's size. OpenTrace looks at the
// first bytes: a binary trace (trace/binary_reader.h) or a CSV
// (trace/csv_reader.h).
//
// Order of calls: Next until it returns false or fails; then end(). Threads:
// one at a time. Outcome: NotFound or the like when a file cannot be opened;
// InvalidArgument with "path:line: error: ..." for a fault of a CSV,
// FailedPrecondition for a binary trace of another version, DataLoss for one
// whose whole records contradict each other.
//
// Example:
//   SK_ASSIGN_OR_RETURN(auto reader, OpenTrace("rank0.sktrace"));
//   TraceStep step;
//   for (;;) {
//     SK_ASSIGN_OR_RETURN(const bool more, reader->Next(&step));
//     if (!more) break;
//     ...
//   }
#ifndef SCALEKEEPER_TRACE_TRACE_READER_H_
#define SCALEKEEPER_TRACE_TRACE_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trace/trace.h"

namespace scalekeeper {

// How a trace ends.
struct TraceEnd {
  enum class Kind {
    kComplete,    // the run came to its end
    kUnfinished,  // whole records only, but no end record: it crashed, or runs
    kTorn,        // bytes that are no whole record follow
  };
  Kind kind = Kind::kComplete;
  // kTorn: where the first record that is not whole begins, and how many bytes
  // the file has from there on (0 where that is not known).
  int64_t torn_offset = 0;
  int64_t torn_bytes = 0;
};

class TraceReader {
 public:
  virtual ~TraceReader() = default;

  virtual const TraceHeader& header() const = 0;
  // The next step; false after the last.
  virtual absl::StatusOr<bool> Next(TraceStep* step) = 0;
  // After Next has returned false.
  virtual TraceEnd end() const = 0;
  // Of the last step, or of the end: "path:12" or "path: byte 4711".
  virtual std::string position() const = 0;
  // Of the file, so far.
  virtual int64_t bytes_read() const = 0;
};

// `histograms`: a CSV of them (trace/histogram_csv.h) beside a CSV trace; empty
// for none. InvalidArgument beside a binary trace, which has its own.
absl::StatusOr<std::unique_ptr<TraceReader>> OpenTrace(
    const std::string& path, const std::string& histograms = "");

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_TRACE_READER_H_
