#include "tools/trace_flags.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace scalekeeper {
namespace {

std::vector<std::string> Split(const std::string& list) {
  if (list.empty()) return {};
  return absl::StrSplit(list, ',');
}

}  // namespace

void AddTraceFlags(FlagSet* flags, TraceFlags* values) {
  flags->String("trace", &values->trace_list, "RANK0[,RANK1...]",
                "one file a rank, rank 0 first (required)");
  flags->String("histograms", &values->histogram_list,
                "RANK0.csv[,RANK1.csv...]",
                "log2 histograms beside CSV traces, one file a rank");
}

absl::Status TraceFlags::Check() const {
  if (trace_list.empty()) {
    return absl::InvalidArgumentError("want --trace=RANK0[,RANK1...]");
  }
  const size_t traces = Split(trace_list).size();
  const size_t histograms = Split(histogram_list).size();
  if (histograms != 0 && histograms != traces) {
    return absl::InvalidArgumentError(absl::StrCat("--histograms: got ",
                                                   histograms, " files, want ",
                                                   traces, ", one per trace"));
  }
  for (const std::string& path : paths()) {
    if (path.empty()) {
      return absl::InvalidArgumentError(
          "--trace, --histograms: got an empty name, want files");
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> TraceFlags::paths() const {
  std::vector<std::string> all = Split(trace_list);
  for (std::string& path : Split(histogram_list)) all.push_back(path);
  return all;
}

int64_t TraceFlags::bytes() const {
  int64_t sum = 0;
  for (const std::string& path : Split(trace_list)) {
    struct stat status = {};
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    sum += status.st_size;
  }
  return sum;
}

absl::StatusOr<RankedTrace> OpenTraces(const TraceFlags& flags) {
  return RankedTrace::Open(Split(flags.trace_list),
                           Split(flags.histogram_list));
}

}  // namespace scalekeeper
