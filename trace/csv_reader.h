// CSV traces.
//
//   step,loss,layers.0.qkv/input,layers.0.qkv/weight,...
//   0,4.02,1.5,0.0441941731,...
//
// The `loss` column may be absent, its cells may be empty. The others are
// <module>/<role>, role one of input, weight, grad. A cell is one rank's amax
// of that step, before any reduction: a float32 >= 0, `nan` or `inf`; empty
// when the tensor was not observed. Steps are integers >= 0. Blank lines are
// skipped.
//
// Faults name path, line and column: a ragged row, an unknown or repeated
// column, a negative amax, one that is no float32, no step at all.
#ifndef SCALEKEEPER_TRACE_CSV_READER_H_
#define SCALEKEEPER_TRACE_CSV_READER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/histogram_csv.h"
#include "trace/line_reader.h"
#include "trace/trace_reader.h"

namespace scalekeeper {

class CsvTraceReader final : public TraceReader {
 public:
  // Reads the header. `histograms` may be null.
  static absl::StatusOr<std::unique_ptr<CsvTraceReader>> Create(
      LineReader lines, std::unique_ptr<HistogramCsvReader> histograms);

  const TraceHeader& header() const override { return header_; }
  absl::StatusOr<bool> Next(TraceStep* step) override;
  TraceEnd end() const override { return {}; }
  std::string position() const override { return lines_.position(); }
  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  CsvTraceReader(LineReader lines,
                 std::unique_ptr<HistogramCsvReader> histograms)
      : lines_(std::move(lines)), histograms_(std::move(histograms)) {}

  absl::Status ReadHeader();

  LineReader lines_;
  std::unique_ptr<HistogramCsvReader> histograms_;
  TraceHeader header_;
  std::vector<absl::string_view> cells_;
  bool has_step_ = false;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_CSV_READER_H_
