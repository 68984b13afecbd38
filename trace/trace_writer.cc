#include "trace/trace_writer.h"

#include "absl/strings/str_cat.h"

namespace scalekeeper {

absl::Status CheckTraceStep(const TraceHeader& header, const TraceStep& step) {
  const auto fault = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step.step, " of a trace: ", what...));
  };
  if (step.step < 0) return fault("want a step >= 0");
  if (step.amax_bits.size() != header.columns.size()) {
    return fault("got ", step.amax_bits.size(), " amaxes, want ",
                 header.columns.size(), ", one per column");
  }
  for (const ColumnHistogram& histogram : step.histograms) {
    if (histogram.column >= header.columns.size()) {
      return fault("got a histogram of column ", histogram.column, ", want 0..",
                   header.columns.size() - 1);
    }
    if (histogram.histogram.counts.empty()) {
      return fault("got a histogram of ", header.columns[histogram.column].name,
                   " without counts");
    }
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper
