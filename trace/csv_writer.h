// Writes the CSV of trace/csv_reader.h, and where asked for that of
// trace/histogram_csv.h beside it. Both appear at Close, whole.
//
// Amaxes have nine digits, which every float32 needs: they read back as the
// same bits (a NaN as some NaN).
#ifndef SCALEKEEPER_TRACE_CSV_WRITER_H_
#define SCALEKEEPER_TRACE_CSV_WRITER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file_stream.h"
#include "trace/histogram_csv.h"
#include "trace/trace_writer.h"

namespace scalekeeper {

class CsvTraceWriter final : public TraceWriter {
 public:
  // `histograms` empty: they are dropped. FailedPrecondition for a slot that is
  // no linear layer's, for which a CSV has no column.
  static absl::StatusOr<std::unique_ptr<CsvTraceWriter>> Create(
      const std::string& path, const TraceHeader& header,
      const std::string& histograms = "");

  absl::Status Write(const TraceStep& step) override;
  absl::Status Flush() override { return file_.Flush(); }
  absl::Status Close() override;

 private:
  CsvTraceWriter(OutputFile file, TraceHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  OutputFile file_;
  const TraceHeader header_;
  std::optional<HistogramCsvWriter> histograms_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_CSV_WRITER_H_
