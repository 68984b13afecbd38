#include "tools/accuracy_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/dtype.h"
#include "base/json.h"

namespace scalekeeper {
namespace {

std::string Sqnr(const CopyAccuracy& a) {
  const double db = a.statistics.sqnr_db();
  return std::isinf(db) && db > 0 ? "exact" : absl::StrFormat("%.2f", db);
}
std::string MaxError(const CopyAccuracy& a) {
  return absl::StrFormat("%.3g", a.max_error);
}
std::string MaxRelativeError(const CopyAccuracy& a) {
  return absl::StrFormat("%.3g", a.max_relative_error);
}
std::string Underflow(const CopyAccuracy& a) {
  return absl::StrFormat("%.3f", 100 * a.statistics.underflow_fraction());
}
std::string Saturation(const CopyAccuracy& a) {
  return absl::StrFormat("%.3f", 100 * a.statistics.saturation_fraction());
}

struct Figure {
  const char* heading;  // of a table of its own
  const char* column;   // in a table with others
  std::string (*text)(const CopyAccuracy& accuracy);
};

constexpr Figure kFigures[] = {
    {"SQNR, dB", "SQNR dB", Sqnr},
    {"Largest error, relative to the tensor's largest magnitude", "error/amax",
     MaxError},
    {"Largest relative error of an element that does not underflow",
     "relative error", MaxRelativeError},
    {"Underflow, % of the non-zero elements", "underflow %", Underflow},
    {"Saturation, % of the elements", "saturated %", Saturation},
};

std::string TensorName(const TensorJob& job) {
  return absl::StrCat(job.module, " ", Name(job.role), " ", job.rows, "x",
                      job.cols);
}

using Row = std::vector<std::string>;

std::string Cell(const Accuracy& a, const Figure& figure) {
  const auto text = [&](const std::optional<CopyAccuracy>& copy) {
    return copy ? figure.text(*copy) : "-";
  };
  std::string row_wise = text(a.row_wise);
  const std::string column_wise = text(a.column_wise);
  if (a.same || (!a.row_wise && !a.column_wise)) return row_wise;
  return absl::StrCat(row_wise, " / ", column_wise);
}

std::string CopyJson(const std::optional<CopyAccuracy>& copy) {
  if (!copy) return "null";
  const Statistics& s = copy->statistics;
  return absl::StrCat(
      "{\"sqnr_db\": ", JsonNumberOrName(s.sqnr_db()),
      ", \"max_error\": ", JsonNumberOrName(copy->max_error),
      ", \"max_relative_error\": ", JsonNumberOrName(copy->max_relative_error),
      ", \"underflow\": ", JsonNumberOrName(s.underflow_fraction()),
      ", \"saturation\": ", JsonNumberOrName(s.saturation_fraction()),
      ", \"non_finite\": ", s.non_finite, "}");
}

}  // namespace

std::string AccuracyTable(absl::Span<const Accuracy> results) {
  std::vector<Row> rows = {{"recipe", "tensor", "copy"}};
  for (const Figure& figure : kFigures) rows[0].push_back(figure.column);
  const auto add = [&](const Accuracy& a, const char* copy,
                       const std::optional<CopyAccuracy>& accuracy) {
    Row row = {a.recipe, TensorName(a.job), copy};
    for (const Figure& figure : kFigures) {
      row.push_back(accuracy ? figure.text(*accuracy) : "-");
    }
    rows.push_back(std::move(row));
  };
  for (const Accuracy& a : results) {
    if (a.same || (!a.row_wise && !a.column_wise)) {
      add(a, a.same ? "both" : "none", a.row_wise);
      continue;
    }
    if (a.row_wise) add(a, "row-wise", a.row_wise);
    if (a.column_wise) add(a, "column-wise", a.column_wise);
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      // Names to the left, numbers to the right.
      absl::StrAppend(&text, i == 0 ? "" : "  ",
                      i < 3 ? row[i] + space : space + row[i]);
    }
    text += "\n";
  }
  return text;
}

std::string AccuracyMarkdown(absl::Span<const Accuracy> results,
                             size_t tensors) {
  std::string text;
  for (const Figure& figure : kFigures) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", figure.heading,
                    ":\n\n| recipe |");
    for (const Accuracy& a : results.first(tensors)) {
      absl::StrAppend(&text, " ", TensorName(a.job), " |");
    }
    absl::StrAppend(&text, "\n| --- |");
    for (size_t i = 0; i < tensors; ++i) text += " --- |";
    for (size_t i = 0; i < results.size(); ++i) {
      if (i % tensors == 0) {
        absl::StrAppend(&text, "\n| `", results[i].recipe, "` |");
      }
      absl::StrAppend(&text, " ", Cell(results[i], figure), " |");
    }
    text += "\n";
  }
  return text;
}

std::string AccuracyJson(absl::Span<const Accuracy> results) {
  std::string text = "[";
  for (const Accuracy& a : results) {
    absl::StrAppend(&text, text.size() > 1 ? ",\n" : "\n",
                    "{\"recipe\": ", JsonString(a.recipe),
                    ", \"module\": ", JsonString(a.job.module),
                    ", \"role\": ", JsonString(Name(a.job.role)),
                    ", \"shape\": [", a.job.rows, ", ", a.job.cols,
                    "], \"dtype\": ", JsonString(Name(a.job.dtype)),
                    ", \"step\": ", a.job.step,
                    ",\n \"policy\": ", JsonString(Describe(a.policy)),
                    ", \"same\": ", a.same ? "true" : "false",
                    ",\n \"row_wise\": ", CopyJson(a.row_wise),
                    ",\n \"column_wise\": ", CopyJson(a.column_wise), "}");
  }
  return text + "\n]\n";
}

}  // namespace scalekeeper
