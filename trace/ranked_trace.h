// RankedTrace: the traces of all ranks of a run, step by step in lockstep.
//
// Ranks must have the same columns and steps. Where a rank's trace is torn or
// unfinished (the run crashed), the trace ends with the last step that every
// rank has, and warnings() says so.
//
// Order of calls and outcome as of TraceReader; InvalidArgument when ranks
// differ, naming both files.
//
// Example:
//   SK_ASSIGN_OR_RETURN(RankedTrace trace,
//                       RankedTrace::Open({"rank0.csv", "rank1.csv"}, {}));
#ifndef SCALEKEEPER_TRACE_RANKED_TRACE_H_
#define SCALEKEEPER_TRACE_RANKED_TRACE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/trace_reader.h"

namespace scalekeeper {

class RankedTrace {
 public:
  // Rank 0 first. `histograms`: none, or one CSV per CSV trace.
  static absl::StatusOr<RankedTrace> Open(
      const std::vector<std::string>& paths,
      const std::vector<std::string>& histograms);

  // Rank 0's; the columns are those of all.
  const TraceHeader& header() const { return readers_[0]->header(); }
  size_t ranks() const { return readers_.size(); }

  // One entry per rank. False after the last step that all ranks have.
  absl::StatusOr<bool> Next(std::vector<TraceStep>* steps);

  // Of all files, so far.
  int64_t bytes_read() const;

  // After Next has returned false: one line for each rank whose trace is not
  // complete.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  explicit RankedTrace(std::vector<std::unique_ptr<TraceReader>> readers,
                       std::vector<std::string> paths)
      : readers_(std::move(readers)), paths_(std::move(paths)) {}

  // Some rank has no next step.
  absl::Status Finish(const std::vector<TraceStep>& steps,
                      const std::vector<bool>& more);

  std::vector<std::unique_ptr<TraceReader>> readers_;
  std::vector<std::string> paths_;
  std::vector<std::string> warnings_;
  int64_t steps_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_RANKED_TRACE_H_
