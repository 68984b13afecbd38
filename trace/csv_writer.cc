#include "trace/csv_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "numerics/amax.h"

namespace scalekeeper {

absl::StatusOr<std::unique_ptr<CsvTraceWriter>> CsvTraceWriter::Create(
    const std::string& path, const TraceHeader& header,
    const std::string& histograms) {
  std::string line = header.has_loss ? "step,loss" : "step";
  for (const TraceColumn& column : header.columns) {
    if (!IsLayerColumn(column)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, ": a CSV has no column for slot ", Quoted(column.name),
          ", want <module>/input, <module>/weight or <module>/grad"));
    }
    absl::StrAppend(&line, ",", column.name);
  }
  SK_ASSIGN_OR_RETURN(OutputFile file,
                      OutputFile::Create(path, OutputFile::Mode::kReplace));
  SK_RETURN_IF_ERROR(file.Append(line + "\n"));
  std::unique_ptr<CsvTraceWriter> writer(
      new CsvTraceWriter(std::move(file), header));
  if (!histograms.empty()) {
    SK_ASSIGN_OR_RETURN(HistogramCsvWriter made,
                        HistogramCsvWriter::Create(histograms));
    writer->histograms_.emplace(std::move(made));
  }
  return writer;
}

absl::Status CsvTraceWriter::Write(const TraceStep& step) {
  SK_RETURN_IF_ERROR(CheckTraceStep(header_, step));
  std::string line = absl::StrCat(step.step);
  if (header_.has_loss) {
    absl::StrAppend(&line, ",", step.loss ? ShortestNumber(*step.loss) : "");
  }
  for (const uint32_t bits : step.amax_bits) {
    line += ',';
    if (bits == kNotObserved) continue;
    const uint32_t amax = bits & kFloatMagnitudeMask;
    if (amax > kFloatInfBits) {
      line += "nan";
    } else {
      absl::StrAppendFormat(&line, "%.9g", FloatFromBits(amax));
    }
  }
  SK_RETURN_IF_ERROR(file_.Append(line + "\n"));
  return histograms_ ? histograms_->Write(header_, step) : absl::OkStatus();
}

absl::Status CsvTraceWriter::Close() {
  if (histograms_) SK_RETURN_IF_ERROR(histograms_->Close());
  return file_.Close();
}

}  // namespace scalekeeper
