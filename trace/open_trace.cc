#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trace/binary_format.h"
#include "trace/binary_reader.h"
#include "trace/csv_reader.h"
#include "trace/trace_reader.h"

namespace scalekeeper {

absl::StatusOr<std::unique_ptr<TraceReader>> OpenTrace(
    const std::string& path, const std::string& histograms) {
  SK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  std::string head;
  SK_RETURN_IF_ERROR(file.Read(internal::kTraceMagic.size(), &head));
  // Another version's magic is "SKTRACE" and another digit.
  const absl::string_view family = internal::kTraceMagic.substr(0, 7);
  if (absl::string_view(head).substr(0, family.size()) == family) {
    if (head != internal::kTraceMagic) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": a trace of another version: it begins with \"",
                       head, "\", want \"", internal::kTraceMagic, "\""));
    }
    if (!histograms.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          histograms, ": the binary trace ", path, " has its own histograms"));
    }
    return BinaryTraceReader::Create(std::move(file), std::move(head));
  }
  std::unique_ptr<HistogramCsvReader> histogram_reader;
  if (!histograms.empty()) {
    SK_ASSIGN_OR_RETURN(histogram_reader, HistogramCsvReader::Open(histograms));
  }
  return CsvTraceReader::Create(LineReader(std::move(file), std::move(head)),
                                std::move(histogram_reader));
}

}  // namespace scalekeeper
