#include "replay/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/text.h"
#include "replay/ranking.h"

namespace scalekeeper {
namespace {

using Row = std::vector<std::string>;

// The first column to the left, the others to the right.
std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      if (i > 0) line += "  ";
      line += i == 0 ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string Ratio(double ratio) {
  return ratio > 0 ? absl::StrFormat("%.3g", ratio) : "-";
}

// "3 (max 388, 2 never)": steps of the first event, or "-".
std::string RecoveryText(const RecipeResult& recipe) {
  if (recipe.recoveries.empty() || recipe.recoveries[0].judged == 0) return "-";
  const EventRecovery& first = recipe.recoveries[0];
  if (first.not_recovered == first.judged) return "never";
  std::string text =
      absl::StrCat(first.median_steps, " (max ", first.max_steps);
  if (first.not_recovered > 0) {
    absl::StrAppend(&text, ", ", first.not_recovered, " never");
  }
  return text + ")";
}

struct Field {
  const char* name;
  std::string value;  // empty: nothing to judge
};

std::vector<Field> Fields(const ReplayResult& result, const SlotStatistics& s) {
  const auto share = [&](bool known, double value) {
    return known ? ShortestNumber(value) : std::string();
  };
  const bool delayed = s.staleness.total() > 0;
  const bool elements = result.histograms > 0 && s.elements > 0;
  return {
      {"steps", absl::StrCat(s.steps)},
      {"tensors", absl::StrCat(s.tensors)},
      {"saturated_tensors", absl::StrCat(s.saturated_tensors)},
      {"saturated_share", share(s.tensors > 0, s.saturated_share())},
      {"saturated_steps", absl::StrCat(s.saturated_steps)},
      {"saturated_element_share", share(elements, s.saturated_element_share())},
      {"underflow_share", share(elements, s.underflow_share())},
      {"loss", share(s.tensors > 0, s.loss())},
      {"staleness_p01", share(delayed, s.staleness.Quantile(0.01))},
      {"staleness_p50", share(delayed, s.staleness.Quantile(0.5))},
      {"staleness_p99", share(delayed, s.staleness.Quantile(0.99))},
      {"staleness_max", share(delayed, static_cast<double>(s.max_staleness))},
      {"scale_changes", absl::StrCat(s.scale_changes)},
      {"non_finite_steps", absl::StrCat(s.non_finite_steps)},
  };
}

// A cell of a CSV, in quotes where it needs them.
std::string CsvCell(absl::string_view text) {
  if (text.find_first_of(",\"\n") == absl::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string JsonMembers(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    absl::StrAppend(
        &text, ", \"", field.name, "\": ",
        field.value.empty()
            ? "null"
            : (field.value == "inf" || field.value == "nan" ? "null"
                                                            : field.value));
  }
  return text;
}

void AppendRecipes(const ReplayResult& result, std::string* text) {
  std::vector<Row> rows = {{"recipe", "saturated", "of tensors", "underflow",
                            "staleness p1", "p50", "p99", "max",
                            "scale changes", "recovery"}};
  for (const size_t r : RankRecipes(result)) {
    const RecipeResult& recipe = result.recipes[r];
    const SlotStatistics& total = recipe.total;
    if (total.tensors == 0) {
      rows.push_back(
          {recipe.label, "-", "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const bool delayed = total.staleness.total() > 0;
    rows.push_back({recipe.label, Percent(total.saturated_share()),
                    absl::StrCat(total.saturated_tensors, "/", total.tensors),
                    result.histograms > 0 && total.elements > 0
                        ? Percent(total.underflow_share())
                        : "-",
                    Ratio(total.staleness.Quantile(0.01)),
                    Ratio(total.staleness.Quantile(0.5)),
                    Ratio(total.staleness.Quantile(0.99)),
                    Ratio(static_cast<double>(total.max_staleness)),
                    delayed ? absl::StrCat(total.scale_changes) : "-",
                    RecoveryText(recipe)});
  }
  absl::StrAppend(text, Table(rows));
}

void AppendWorst(const ReplayResult& result, size_t slots, std::string* text) {
  const RecipeResult& best = result.recipes[RankRecipes(result)[0]];
  std::vector<Row> rows = {{"quantizer", "saturated", "steps", "underflow",
                            "staleness p1", "p50", "p99", "max"}};
  for (const size_t c : WorstColumns(best)) {
    const SlotStatistics& s = best.slots[c];
    if (rows.size() > slots || s.loss() == 0) break;
    rows.push_back({result.header.columns[c].name, Percent(s.saturated_share()),
                    absl::StrCat(s.saturated_steps, "/", s.steps),
                    s.elements > 0 ? Percent(s.underflow_share()) : "-",
                    Ratio(s.staleness.Quantile(0.01)),
                    Ratio(s.staleness.Quantile(0.5)),
                    Ratio(s.staleness.Quantile(0.99)),
                    Ratio(static_cast<double>(s.max_staleness))});
  }
  if (rows.size() == 1) return;
  absl::StrAppend(text, "\nworst quantizers of ", best.label, ":\n",
                  Table(rows));
}

void AppendRanks(const ReplayResult& result, size_t slots, std::string* text) {
  if (result.ranks < 2) return;
  const RankShares& shares = result.rank_shares;
  std::vector<size_t> order;
  for (size_t c = 0; c < result.header.columns.size(); ++c) {
    if (shares.entry(c).steps > shares.entry(c).equal) order.push_back(c);
  }
  if (order.empty()) {
    absl::StrAppend(text, "\nranks: all have the same amaxes\n");
    return;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return shares.entry(a).max_ratio > shares.entry(b).max_ratio;
  });
  std::vector<Row> rows = {{"quantizer", "largest / smallest, max", "mean",
                            "equal", "largest at rank"}};
  for (const size_t c : order) {
    if (rows.size() > slots) break;
    const RankShares::Entry& entry = shares.entry(c);
    std::string ranks;
    for (size_t rank = 0; rank < std::min<size_t>(result.ranks, 8); ++rank) {
      absl::StrAppend(&ranks, rank == 0 ? "" : " ", rank, ":",
                      Percent(static_cast<double>(shares.largest(c, rank)) /
                              static_cast<double>(entry.steps)));
    }
    rows.push_back(
        {result.header.columns[c].name,
         absl::StrFormat("%.2f", entry.max_ratio),
         absl::StrFormat("%.2f", std::exp2(entry.log2_sum() /
                                           static_cast<double>(entry.steps))),
         Percent(static_cast<double>(entry.equal) /
                 static_cast<double>(entry.steps)),
         ranks});
  }
  absl::StrAppend(text, "\nwhere ranks differ most:\n", Table(rows));
}

}  // namespace

std::string SummaryTable(const ReplayResult& result, size_t slots) {
  std::string text;
  for (const TraceEvent& event : result.events) {
    absl::StrAppend(&text, "event, ", DescribeEvent(result, event), "\n");
  }
  AppendRecipes(result, &text);
  absl::StrAppend(&text, "\n", ExplainRanking(result), "\n");
  AppendWorst(result, slots, &text);
  AppendRanks(result, slots, &text);
  return text;
}

std::string SummaryCsv(const ReplayResult& result) {
  std::string text = "recipe,quantizer,policy";
  for (const Field& field : Fields(result, SlotStatistics())) {
    absl::StrAppend(&text, ",", field.name);
  }
  text += '\n';
  for (const RecipeResult& recipe : result.recipes) {
    const auto row = [&](absl::string_view name, absl::string_view policy,
                         const SlotStatistics& statistics) {
      absl::StrAppend(&text, CsvCell(recipe.label), ",", CsvCell(name), ",",
                      CsvCell(policy));
      for (const Field& field : Fields(result, statistics)) {
        absl::StrAppend(&text, ",", field.value);
      }
      text += '\n';
    };
    row("total", "", recipe.total);
    for (size_t c = 0; c < recipe.slots.size(); ++c) {
      row(result.header.columns[c].name, Describe(recipe.policies[c]),
          recipe.slots[c]);
    }
  }
  return text;
}

std::string SummaryJson(const ReplayResult& result) {
  std::string text = absl::StrCat(
      "{\"steps\": ", result.steps, ", \"first_step\": ", result.first_step,
      ", \"last_step\": ", result.last_step,
      ", \"quantizers\": ", result.header.columns.size(),
      ", \"ranks\": ", result.ranks, ", \"histograms\": ", result.histograms,
      ", \"non_finite_amaxes\": ", result.non_finite,
      ",\n \"verdict\": ", JsonString(ExplainRanking(result)),
      ",\n \"events\": [");
  for (size_t i = 0; i < result.events.size(); ++i) {
    const TraceEvent& event = result.events[i];
    absl::StrAppend(
        &text, i == 0 ? "\n  " : ",\n  ",
        "{\"name\": ", JsonString(Name(event)),
        ", \"first_step\": ", event.first_step,
        ", \"last_step\": ", event.last_step, ", \"columns\": ", event.columns,
        ", \"worst\": ",
        event.columns > 0
            ? JsonString(result.header.columns[event.worst_column].name)
            : "null",
        ", \"worst_log2\": ", JsonNumber(event.worst_log2),
        ", \"loss_before\": ",
        event.loss_jumped ? JsonNumber(event.loss_before) : "null",
        ", \"loss_peak\": ",
        event.loss_jumped ? JsonNumber(event.loss_peak) : "null",
        ", \"text\": ", JsonString(DescribeEvent(result, event)), "}");
  }
  absl::StrAppend(&text, "],\n \"recipes\": [");
  bool first = true;
  for (const size_t r : RankRecipes(result)) {
    const RecipeResult& recipe = result.recipes[r];
    absl::StrAppend(
        &text, first ? "\n  " : ",\n  ",
        "{\"recipe\": ", JsonString(recipe.label),
        ", \"fingerprint\": ", JsonString(recipe.recipe.fingerprint()),
        ", \"judged_quantizers\": ", recipe.judged_count(),
        JsonMembers(Fields(result, recipe.total)), ", \"recoveries\": [");
    first = false;
    for (size_t i = 0; i < recipe.recoveries.size(); ++i) {
      const EventRecovery& recovery = recipe.recoveries[i];
      absl::StrAppend(&text, i == 0 ? "" : ", ",
                      "{\"judged\": ", recovery.judged,
                      ", \"not_recovered\": ", recovery.not_recovered,
                      ", \"median_steps\": ", recovery.median_steps,
                      ", \"max_steps\": ", recovery.max_steps, "}");
    }
    absl::StrAppend(&text, "], \"quantizers\": [");
    for (size_t c = 0; c < recipe.slots.size(); ++c) {
      absl::StrAppend(
          &text, c == 0 ? "\n   " : ",\n   ",
          "{\"quantizer\": ", JsonString(result.header.columns[c].name),
          ", \"policy\": ", JsonString(Describe(recipe.policies[c])),
          JsonMembers(Fields(result, recipe.slots[c])), "}");
    }
    absl::StrAppend(&text, "]}");
  }
  absl::StrAppend(&text, "],\n \"ranks_differ\": [");
  first = true;
  for (size_t c = 0; result.ranks > 1 && c < result.header.columns.size();
       ++c) {
    const RankShares::Entry& entry = result.rank_shares.entry(c);
    absl::StrAppend(
        &text, first ? "\n  " : ",\n  ",
        "{\"quantizer\": ", JsonString(result.header.columns[c].name),
        ", \"steps\": ", entry.steps, ", \"equal\": ", entry.equal,
        ", \"max_ratio\": ", JsonNumber(entry.max_ratio), ", \"largest\": [");
    first = false;
    for (size_t rank = 0; rank < result.ranks; ++rank) {
      absl::StrAppend(&text, rank == 0 ? "" : ", ",
                      result.rank_shares.largest(c, rank));
    }
    absl::StrAppend(&text, "]}");
  }
  absl::StrAppend(&text, "]}\n");
  return text;
}

}  // namespace scalekeeper
