#include "trace/histogram_csv.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "trace/csv_cells.h"

namespace scalekeeper {
namespace {

constexpr int kMaxExponent = 1 << 12;

}  // namespace

absl::StatusOr<std::unique_ptr<HistogramCsvReader>> HistogramCsvReader::Open(
    const std::string& path) {
  SK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  std::unique_ptr<HistogramCsvReader> reader(
      new HistogramCsvReader(LineReader(std::move(file), "")));
  SK_RETURN_IF_ERROR(reader->ReadHeader());
  return reader;
}

absl::Status HistogramCsvReader::ReadHeader() {
  absl::string_view line;
  SK_ASSIGN_OR_RETURN(const bool any, lines_.Next(&line));
  if (!any) line = "";
  absl::ConsumePrefix(&line, "\xEF\xBB\xBF");
  SplitCells(line, &cells_);
  if (cells_.size() < 3 || cells_[0] != "step" || cells_[1] != "quantizer") {
    return lines_.Fault("", "want a header \"step,quantizer,e<K>,...\"");
  }
  buckets_ = cells_.size() - 2;
  for (size_t i = 0; i < buckets_; ++i) {
    absl::string_view cell = cells_[i + 2];
    int exponent = 0;
    if (!absl::ConsumePrefix(&cell, "e") ||
        !absl::SimpleAtoi(cell, &exponent) || exponent < -kMaxExponent ||
        exponent > kMaxExponent ||
        (i > 0 && exponent != first_exponent_ + static_cast<int>(i))) {
      return lines_.Fault("", absl::StrCat("got column ", Quoted(cells_[i + 2]),
                                           ", want e<K>, K going up by one"));
    }
    if (i == 0) first_exponent_ = exponent;
  }
  return absl::OkStatus();
}

absl::Status HistogramCsvReader::Bind(const TraceHeader& header) {
  for (size_t i = 0; i < header.columns.size(); ++i) {
    column_of_[header.columns[i].name] = i;
  }
  return ReadRow();
}

absl::Status HistogramCsvReader::ReadRow() {
  absl::string_view line;
  do {
    SK_ASSIGN_OR_RETURN(has_row_, lines_.Next(&line));
    if (!has_row_) return absl::OkStatus();
  } while (line.empty());
  SplitCells(line, &cells_);
  if (cells_.size() != buckets_ + 2) {
    return lines_.Fault("", absl::StrCat("ragged row: got ", cells_.size(),
                                         " cells, want ", buckets_ + 2));
  }
  if (!absl::SimpleAtoi(cells_[0], &row_step_) || row_step_ < 0) {
    return lines_.Fault("step", absl::StrCat("got ", Quoted(cells_[0]),
                                             ", want an integer >= 0"));
  }
  const auto column = column_of_.find(cells_[1]);
  if (column == column_of_.end()) {
    return lines_.Fault("quantizer",
                        absl::StrCat("got ", Quoted(cells_[1]),
                                     ", which the trace does not have"));
  }
  row_.column = column->second;
  row_.histogram.first_exponent = first_exponent_;
  row_.histogram.counts.resize(buckets_);
  for (size_t i = 0; i < buckets_; ++i) {
    if (!absl::SimpleAtoi(cells_[i + 2], &row_.histogram.counts[i])) {
      return lines_.Fault(
          absl::StrCat("e", first_exponent_ + static_cast<int>(i)),
          absl::StrCat("got ", Quoted(cells_[i + 2]), ", want a count"));
    }
  }
  return absl::OkStatus();
}

absl::Status HistogramCsvReader::Take(
    int64_t step, std::vector<ColumnHistogram>* histograms) {
  while (has_row_ && row_step_ == step) {
    histograms->push_back(row_);
    SK_RETURN_IF_ERROR(ReadRow());
  }
  if (has_row_ && row_step_ < step) {
    return lines_.Fault("step",
                        absl::StrCat("got ", row_step_,
                                     ", which the trace does not "
                                     "have, or not after the steps before it"));
  }
  return absl::OkStatus();
}

absl::Status HistogramCsvReader::ExpectEnd() {
  if (!has_row_) return absl::OkStatus();
  return lines_.Fault("step",
                      absl::StrCat("got ", row_step_,
                                   ", which the trace does not "
                                   "have, or not after the steps before it"));
}

absl::StatusOr<HistogramCsvWriter> HistogramCsvWriter::Create(
    const std::string& path) {
  SK_ASSIGN_OR_RETURN(OutputFile file,
                      OutputFile::Create(path, OutputFile::Mode::kReplace));
  return HistogramCsvWriter(std::move(file));
}

absl::Status HistogramCsvWriter::Write(const TraceHeader& header,
                                       const TraceStep& step) {
  std::string text;
  for (const ColumnHistogram& entry : step.histograms) {
    const Log2Histogram& histogram = entry.histogram;
    if (!has_header_) {
      has_header_ = true;
      first_exponent_ = histogram.first_exponent;
      buckets_ = histogram.counts.size();
      text = "step,quantizer";
      for (size_t i = 0; i < buckets_; ++i) {
        absl::StrAppend(&text, ",e", first_exponent_ + static_cast<int>(i));
      }
      text += '\n';
    }
    const std::string& name = header.columns[entry.column].name;
    if (histogram.first_exponent != first_exponent_ ||
        histogram.counts.size() != buckets_) {
      return absl::FailedPreconditionError(absl::StrCat(
          file_.path(), ": step ", step.step, ": the histogram of ", name,
          " has other exponents than the first, for which a CSV has no place"));
    }
    absl::StrAppend(&text, step.step, ",", name);
    for (const uint64_t count : histogram.counts) {
      absl::StrAppend(&text, ",", count);
    }
    text += '\n';
  }
  return file_.Append(text);
}

}  // namespace scalekeeper
