#include "trace/csv_reader.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "numerics/amax.h"
#include "trace/csv_cells.h"

namespace scalekeeper {
namespace {

absl::StatusOr<TraceColumn> ParseColumn(absl::string_view name,
                                        const LineReader& lines) {
  const size_t slash = name.rfind('/');
  const absl::string_view role =
      slash == absl::string_view::npos ? "" : name.substr(slash + 1);
  for (const Role candidate : kRoles) {
    if (slash > 0 && role == Name(candidate)) {
      return LayerColumn(std::string(name.substr(0, slash)), candidate);
    }
  }
  return lines.Fault(name,
                     "unknown column, want <module>/input, <module>/weight or "
                     "<module>/grad");
}

absl::StatusOr<uint32_t> ParseAmax(absl::string_view cell,
                                   absl::string_view column,
                                   const LineReader& lines) {
  if (cell.empty()) return kNotObserved;
  const auto fault = [&](absl::string_view want) {
    return lines.Fault(column, absl::StrCat("got ", Quoted(cell), ", ", want));
  };
  // What no float of a trace is made of: spaces, hexadecimal.
  const bool plain = cell.find_first_not_of("0123456789+-.einfaNIFA") ==
                     absl::string_view::npos;
  float value = 0;
  if (!plain || !absl::SimpleAtof(cell, &value)) {
    return fault("want a float32 >= 0, nan, inf or nothing");
  }
  if (value < 0 || (std::signbit(value) && cell.find_first_of("123456789") !=
                                               absl::string_view::npos)) {
    return fault("want no negative amax");
  }
  if (std::isinf(value) && absl::ascii_isdigit(cell.back())) {
    return fault("want no more than float32 holds");
  }
  if (value == 0) {
    double exact = 0;
    if (!absl::SimpleAtod(cell, &exact) || exact != 0) {
      return fault("want 0 or what float32 holds");
    }
  }
  return AmaxBits(value);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvTraceReader>> CsvTraceReader::Create(
    LineReader lines, std::unique_ptr<HistogramCsvReader> histograms) {
  std::unique_ptr<CsvTraceReader> reader(
      new CsvTraceReader(std::move(lines), std::move(histograms)));
  SK_RETURN_IF_ERROR(reader->ReadHeader());
  if (reader->histograms_ != nullptr) {
    SK_RETURN_IF_ERROR(reader->histograms_->Bind(reader->header_));
  }
  return reader;
}

absl::Status CsvTraceReader::ReadHeader() {
  absl::string_view line;
  SK_ASSIGN_OR_RETURN(const bool any, lines_.Next(&line));
  if (!any) line = "";
  absl::ConsumePrefix(&line, "\xEF\xBB\xBF");  // a byte order mark
  SplitCells(line, &cells_);
  if (cells_[0] != "step") {
    return lines_.Fault(
        "", absl::StrCat("got a header that starts with ",
                         Quoted(cells_[0].substr(0, 40)), ", want \"step\""));
  }
  header_.has_loss = cells_.size() > 1 && cells_[1] == "loss";
  std::set<absl::string_view> seen;
  for (size_t i = header_.has_loss ? 2 : 1; i < cells_.size(); ++i) {
    SK_ASSIGN_OR_RETURN(TraceColumn column, ParseColumn(cells_[i], lines_));
    if (!seen.insert(cells_[i]).second) {
      return lines_.Fault(cells_[i], "the same column twice");
    }
    header_.columns.push_back(std::move(column));
  }
  if (header_.columns.empty()) {
    return lines_.Fault("", "no <module>/<role> column");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvTraceReader::Next(TraceStep* step) {
  absl::string_view line;
  do {
    SK_ASSIGN_OR_RETURN(const bool more, lines_.Next(&line));
    if (!more) {
      if (!has_step_) return lines_.Fault("", "no step in the trace");
      if (histograms_ != nullptr) SK_RETURN_IF_ERROR(histograms_->ExpectEnd());
      return false;
    }
  } while (line.empty());
  SplitCells(line, &cells_);
  const size_t first = header_.has_loss ? 2 : 1;
  const size_t columns = header_.columns.size();
  if (cells_.size() != first + columns) {
    return lines_.Fault("", absl::StrCat("ragged row: got ", cells_.size(),
                                         " cells, want ", first + columns));
  }
  if (!absl::SimpleAtoi(cells_[0], &step->step) || step->step < 0) {
    return lines_.Fault("step", absl::StrCat("got ", Quoted(cells_[0]),
                                             ", want an integer >= 0"));
  }
  step->loss.reset();
  if (header_.has_loss && !cells_[1].empty()) {
    double loss = 0;
    if (!absl::SimpleAtod(cells_[1], &loss)) {
      return lines_.Fault(
          "loss", absl::StrCat("got ", Quoted(cells_[1]), ", want a number"));
    }
    step->loss = loss;
  }
  step->amax_bits.resize(columns);
  for (size_t i = 0; i < columns; ++i) {
    SK_ASSIGN_OR_RETURN(
        step->amax_bits[i],
        ParseAmax(cells_[first + i], header_.columns[i].name, lines_));
  }
  step->histograms.clear();
  if (histograms_ != nullptr) {
    SK_RETURN_IF_ERROR(histograms_->Take(step->step, &step->histograms));
  }
  has_step_ = true;
  return true;
}

}  // namespace scalekeeper
