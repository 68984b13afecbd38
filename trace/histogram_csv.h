// Log2 histograms of tensors as CSV, beside a CSV trace.
//
//   step,quantizer,e-44,e-43,...,e19
//   0,layers.0.qkv/input,0,0,...,305
//
// Column eK counts 2^K <= |x| < 2^(K+1); the first one includes everything
// smaller and the zeros. Exponents go up by one; rows go up by step, and only
// steps of the trace occur.
#ifndef SCALEKEEPER_TRACE_HISTOGRAM_CSV_H_
#define SCALEKEEPER_TRACE_HISTOGRAM_CSV_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_stream.h"
#include "trace/line_reader.h"
#include "trace/trace.h"

namespace scalekeeper {

class HistogramCsvReader {
 public:
  // Reads the header.
  static absl::StatusOr<std::unique_ptr<HistogramCsvReader>> Open(
      const std::string& path);

  // The trace's columns, before the first Take.
  absl::Status Bind(const TraceHeader& header);
  // Appends the histograms of `step`; steps must come in the trace's order.
  absl::Status Take(int64_t step, std::vector<ColumnHistogram>* histograms);
  // InvalidArgument when rows are left: of steps that the trace does not have.
  absl::Status ExpectEnd();

 private:
  explicit HistogramCsvReader(LineReader lines) : lines_(std::move(lines)) {}

  absl::Status ReadHeader();
  // Into row_; none at the end of the file.
  absl::Status ReadRow();

  LineReader lines_;
  int first_exponent_ = 0;
  size_t buckets_ = 0;
  absl::flat_hash_map<std::string, size_t> column_of_;
  std::vector<absl::string_view> cells_;
  bool has_row_ = false;
  int64_t row_step_ = 0;
  ColumnHistogram row_;
};

// Writes the CSV above; all histograms must have the same exponents.
class HistogramCsvWriter {
 public:
  static absl::StatusOr<HistogramCsvWriter> Create(const std::string& path);

  absl::Status Write(const TraceHeader& header, const TraceStep& step);
  absl::Status Close() { return file_.Close(); }

 private:
  explicit HistogramCsvWriter(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
  bool has_header_ = false;
  int first_exponent_ = 0;
  size_t buckets_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_HISTOGRAM_CSV_H_
