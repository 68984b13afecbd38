#include "tools/trace_csv.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "numerics/amax.h"

namespace scalekeeper {
namespace {

// Where a fault is: "rank0.csv:12: column 3 (layers.0.qkv/grad)".
struct Position {
  absl::string_view source;
  size_t line;
};

absl::Status Fault(const Position& position, absl::string_view column,
                   absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      position.source, ":", position.line, ": error: ",
      column.empty() ? "" : absl::StrCat("column ", Quoted(column), ": "),
      text));
}

absl::StatusOr<TraceColumn> ParseColumn(absl::string_view name,
                                        const Position& position) {
  TraceColumn column;
  column.name = std::string(name);
  const size_t slash = name.rfind('/');
  const absl::string_view role =
      slash == absl::string_view::npos ? "" : name.substr(slash + 1);
  for (const Role candidate : kRoles) {
    if (slash > 0 && role == Name(candidate)) {
      column.module = std::string(name.substr(0, slash));
      column.role = candidate;
      return column;
    }
  }
  return Fault(position, name,
               "unknown column, want <module>/input, <module>/weight or "
               "<module>/grad");
}

absl::StatusOr<uint32_t> ParseAmax(absl::string_view cell,
                                   absl::string_view column,
                                   const Position& position) {
  if (cell.empty()) return kNotObserved;
  const auto fault = [&](absl::string_view want) {
    return Fault(position, column,
                 absl::StrCat("got ", Quoted(cell), ", ", want));
  };
  // What no float of a trace is made of: spaces, hexadecimal.
  const bool plain = cell.find_first_not_of("0123456789+-.einfaNIFA") ==
                     absl::string_view::npos;
  double exact = 0;
  float value = 0;
  if (!plain || !absl::SimpleAtod(cell, &exact) ||
      !absl::SimpleAtof(cell, &value)) {
    return fault("want a float32 >= 0, nan, inf or nothing");
  }
  if (exact < 0) return fault("want no negative amax");
  if (std::isinf(value) && absl::ascii_isdigit(cell.back())) {
    return fault("want no more than float32 holds");
  }
  if (value == 0 && exact > 0) return fault("want 0 or what float32 holds");
  return AmaxBits(value);
}

}  // namespace

absl::StatusOr<Trace> ParseTraceCsv(absl::string_view text,
                                    absl::string_view source) {
  text = absl::StripPrefix(text, "\xEF\xBB\xBF");  // a byte order mark
  Trace trace;
  Position position{source, 0};
  size_t first_column = 0;  // 1 or 2: where the quantizers start
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++position.line;
    line = absl::StripSuffix(line, "\r");
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    if (position.line == 1) {
      if (cells[0] != "step") {
        return Fault(
            position, "",
            absl::StrCat("got a header that starts with ",
                         Quoted(cells[0].substr(0, 40)), ", want \"step\""));
      }
      first_column = cells.size() > 1 && cells[1] == "loss" ? 2 : 1;
      std::set<absl::string_view> seen;
      for (size_t i = first_column; i < cells.size(); ++i) {
        SK_ASSIGN_OR_RETURN(TraceColumn column,
                            ParseColumn(cells[i], position));
        if (!seen.insert(cells[i]).second) {
          return Fault(position, cells[i], "the same column twice");
        }
        trace.columns.push_back(std::move(column));
      }
      if (trace.columns.empty()) {
        return Fault(position, "", "no <module>/<role> column");
      }
      continue;
    }
    if (line.empty()) continue;
    if (cells.size() != first_column + trace.columns.size()) {
      return Fault(
          position, "",
          absl::StrCat("ragged row: got ", cells.size(), " cells, want ",
                       first_column + trace.columns.size()));
    }
    int64_t step = 0;
    if (!absl::SimpleAtoi(cells[0], &step) || step < 0) {
      return Fault(
          position, "step",
          absl::StrCat("got ", Quoted(cells[0]), ", want an integer >= 0"));
    }
    double loss = 0;
    if (first_column == 2 && !cells[1].empty() &&
        !absl::SimpleAtod(cells[1], &loss)) {
      return Fault(position, "loss",
                   absl::StrCat("got ", Quoted(cells[1]), ", want a number"));
    }
    trace.steps.push_back(step);
    for (size_t i = 0; i < trace.columns.size(); ++i) {
      SK_ASSIGN_OR_RETURN(
          const uint32_t bits,
          ParseAmax(cells[first_column + i], trace.columns[i].name, position));
      trace.amax_bits.push_back(bits);
    }
  }
  if (trace.steps.empty()) {
    return Fault(position, "", "no step in the trace");
  }
  return trace;
}

absl::StatusOr<std::vector<Trace>> ReadTraceCsvs(
    const std::vector<std::string>& paths) {
  std::vector<Trace> traces;
  for (const std::string& path : paths) {
    SK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    SK_ASSIGN_OR_RETURN(Trace trace, ParseTraceCsv(text, path));
    if (!traces.empty()) {
      const Trace& first = traces.front();
      for (size_t i = 0; i < trace.columns.size() || i < first.columns.size();
           ++i) {
        const std::string got =
            i < trace.columns.size() ? trace.columns[i].name : "nothing";
        const std::string want =
            i < first.columns.size() ? first.columns[i].name : "nothing";
        if (got != want) {
          return Fault(
              {path, 1}, "",
              absl::StrCat("quantizer ", i + 1, ": got ", Quoted(got),
                           ", want ", Quoted(want), " as in ", paths[0]));
        }
      }
      for (size_t row = 0; row < trace.steps.size() || row < first.steps.size();
           ++row) {
        const auto step = [row](const std::vector<int64_t>& steps) {
          return row < steps.size() ? absl::StrCat("step ", steps[row])
                                    : std::string("nothing");
        };
        if (step(trace.steps) != step(first.steps)) {
          return Fault({path, row + 2}, "",
                       absl::StrCat("got ", step(trace.steps), ", want ",
                                    step(first.steps), " as in ", paths[0]));
        }
      }
    }
    traces.push_back(std::move(trace));
  }
  return traces;
}

}  // namespace scalekeeper
