// --trace and --histograms, of the commands that read recorded amaxes.
#ifndef SCALEKEEPER_TOOLS_TRACE_FLAGS_H_
#define SCALEKEEPER_TOOLS_TRACE_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/flag_set.h"
#include "trace/ranked_trace.h"

namespace scalekeeper {

struct TraceFlags {
  std::string trace_list;
  std::string histogram_list;

  // InvalidArgument when no trace, or an empty name, was given.
  absl::Status Check() const;
  // All files that are read.
  std::vector<std::string> paths() const;
  // Of the traces; 0 where that is not known (a pipe).
  int64_t bytes() const;
};

void AddTraceFlags(FlagSet* flags, TraceFlags* values);

absl::StatusOr<RankedTrace> OpenTraces(const TraceFlags& flags);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_TRACE_FLAGS_H_
