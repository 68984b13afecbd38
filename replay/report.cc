#include "replay/report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "replay/ranking.h"
#include "replay/report_plots.h"
#include "replay/report_style.h"

namespace scalekeeper {
namespace {

// Rows of the heat map, curves, rows of the tables.
constexpr size_t kMaxHeatRows = 180;
constexpr size_t kCurves = 6;
constexpr size_t kWorstRows = 12;
constexpr size_t kRankRows = 12;
constexpr size_t kBarRanks = 8;

std::string Ratio(double ratio) {
  return ratio > 0 ? absl::StrFormat("%.3g", ratio) : "&ndash;";
}

std::string Cell(absl::string_view html, bool wide = false) {
  return absl::StrCat(wide ? "<td class=\"wide\">" : "<td>", html, "</td>");
}

// What is drawn: the best recipe, the first one given, and the one that loses
// most; indices of result.recipes.
std::vector<size_t> Pictured(const ReplayResult& result) {
  std::vector<size_t> ranked;
  for (const size_t r : RankRecipes(result)) {
    if (result.recipes[r].total.tensors > 0) ranked.push_back(r);
  }
  std::vector<size_t> pictured;
  const auto add = [&](size_t r) {
    if (std::find(pictured.begin(), pictured.end(), r) == pictured.end() &&
        result.recipes[r].total.tensors > 0) {
      pictured.push_back(r);
    }
  };
  if (ranked.empty()) return pictured;
  add(ranked.front());
  add(0);
  add(ranked.back());
  return pictured;
}

double Loss(const ReplayResult& result, const std::vector<size_t>& pictured,
            size_t column) {
  double loss = 0;
  for (const size_t r : pictured) {
    loss = std::max(loss, result.recipes[r].slots[column].loss());
  }
  return loss;
}

// Those with the largest loss under any pictured recipe, at most `count`.
std::vector<size_t> Worst(const ReplayResult& result,
                          const std::vector<size_t>& pictured, size_t count) {
  std::vector<size_t> order;
  for (size_t c = 0; c < result.header.columns.size(); ++c) {
    for (const size_t r : pictured) {
      if (!result.recipes[r].judged[c]) continue;
      order.push_back(c);
      break;
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return Loss(result, pictured, a) > Loss(result, pictured, b);
  });
  order.resize(std::min(order.size(), count));
  return order;
}

std::string Events(const ReplayResult& result) {
  std::string html = "<section id=\"events\"><h2>Events</h2>\n";
  if (result.events.empty()) {
    html += "<p>None: neither the loss nor many amaxes jump.</p>\n";
  } else {
    html += "<ul>\n";
    for (const TraceEvent& event : result.events) {
      absl::StrAppend(&html, "<li>", EscapeHtml(DescribeEvent(result, event)),
                      "</li>\n");
    }
    html += "</ul>\n";
  }
  const std::string plot = LossPlot(result);
  if (!plot.empty()) {
    absl::StrAppend(&html, "<h3>Loss</h3>\n", plot);
  }
  return html + "</section>\n";
}

std::string Recovery(const RecipeResult& recipe) {
  if (recipe.recoveries.empty() || recipe.recoveries[0].judged == 0) {
    return "&ndash;";
  }
  const EventRecovery& first = recipe.recoveries[0];
  if (first.not_recovered == first.judged) return "never";
  std::string text =
      absl::StrCat(first.median_steps, " (max ", first.max_steps, ")");
  if (first.not_recovered > 0) {
    absl::StrAppend(&text, ", ", first.not_recovered, " never");
  }
  return text;
}

std::string Ranking(const ReplayResult& result) {
  std::string html =
      "<section id=\"ranking\"><h2>Recipes, the one that loses least "
      "first</h2>\n<div class=\"scroll\"><table><thead><tr><th>recipe</th>"
      "<th>tensors that saturate</th><th>elements that underflow</th>"
      "<th class=\"wide\">loss</th><th class=\"wide\">staleness, median</th>"
      "<th class=\"wide\">99%</th><th class=\"wide\">largest</th>"
      "<th class=\"wide\">scale changes</th>"
      "<th class=\"wide\">steps to recover</th></tr></thead><tbody>\n";
  const std::vector<size_t> order = RankRecipes(result);
  double largest = 0;
  for (const RecipeResult& recipe : result.recipes) {
    largest = std::max(largest, recipe.total.loss());
  }
  for (const size_t r : order) {
    const RecipeResult& recipe = result.recipes[r];
    const SlotStatistics& total = recipe.total;
    absl::StrAppend(&html,
                    r == order[0] && result.recipes.size() > 1
                        ? "<tr class=\"best\">"
                        : "<tr>",
                    Cell(EscapeHtml(recipe.label)));
    if (total.tensors == 0) {
      absl::StrAppend(&html, Cell("&ndash;"), Cell("&ndash;"),
                      "<td class=\"wide\" colspan=\"6\">nothing that amaxes "
                      "can judge</td></tr>\n");
      continue;
    }
    const bool delayed = total.staleness.total() > 0;
    const double bar = largest > 0 ? 100 * total.loss() / largest : 0;
    absl::StrAppend(
        &html, Cell(Percent(total.saturated_share())),
        Cell(result.histograms > 0 ? Percent(total.underflow_share())
                                   : "&ndash;"),
        Cell(absl::StrFormat("<span class=\"bar\"><i class=\"r1\" "
                             "style=\"width:%.1f%%\"></i></span>",
                             bar),
             true),
        Cell(Ratio(total.staleness.Quantile(0.5)), true),
        Cell(Ratio(total.staleness.Quantile(0.99)), true),
        Cell(Ratio(static_cast<double>(total.max_staleness)), true),
        Cell(delayed ? absl::StrCat(total.scale_changes) : "&ndash;", true),
        Cell(Recovery(recipe), true), "</tr>\n");
  }
  return absl::StrCat(
      html,
      "</tbody></table></div>\n<p class=\"soft\">Loss: the share of tensors "
      "that saturate (amax &times; scale above the format's maximum) plus the "
      "share of elements that underflow",
      result.histograms > 0 ? "" : " (not known: the trace has no histograms)",
      ". Staleness: amax now / the amax that the scale was made from; above 1 "
      "it has grown, 1/8 leaves 3 bits unused. Recovery: of the first event, "
      "median and largest.</p>\n</section>\n");
}

std::string Headroom(const ReplayResult& result,
                     const std::vector<size_t>& pictured) {
  std::vector<size_t> columns = Worst(
      result, pictured, std::min(kMaxHeatRows, result.header.columns.size()));
  std::sort(columns.begin(), columns.end());
  std::string html = absl::StrCat(
      "<section id=\"headroom\"><h2>Headroom of every quantizer</h2>\n"
      "<p class=\"soft\">log2(format's maximum / (amax &times; scale)), in "
      "bits: how much of the format is left unused; red saturates. One row "
      "per quantizer (input, weight, grad of a module)",
      columns.size() < result.header.columns.size()
          ? absl::StrCat("; the ", columns.size(), " of ",
                         result.header.columns.size(), " that lose most")
          : "",
      ".</p>\n", HeatLegend());
  for (const size_t r : pictured) {
    absl::StrAppend(&html, "<h3>", EscapeHtml(result.recipes[r].label),
                    "</h3>\n", HeatMap(result, result.recipes[r], columns));
  }
  return html + "</section>\n";
}

std::string Curves(const ReplayResult& result,
                   const std::vector<size_t>& pictured) {
  std::string html =
      "<section id=\"curves\"><h2>Quantizers that lose most</h2>\n"
      "<p class=\"soft\">The largest magnitude of each step, and what each "
      "recipe's scale can hold: where the dark line is above a coloured one, "
      "the tensor saturates.</p>\n<div class=\"legend\"><span><i class=\"key\" "
      "style=\"background:var(--amax)\"></i>amax</span>";
  for (size_t i = 0; i < pictured.size(); ++i) {
    absl::StrAppend(&html, "<span><i class=\"key r", i, "\"></i>",
                    EscapeHtml(result.recipes[pictured[i]].label), "</span>");
  }
  html += "</div>\n<div class=\"curves\">\n";
  std::vector<size_t> columns = Worst(result, pictured, kCurves);
  // What the event moved farthest belongs here, whatever it cost.
  const TraceEvent* const event = MainEvent(result);
  if (event != nullptr && event->columns > 0 && !columns.empty() &&
      std::find(columns.begin(), columns.end(), event->worst_column) ==
          columns.end()) {
    columns.back() = event->worst_column;
  }
  for (const size_t c : columns) {
    absl::StrAppend(&html, "<section><h3>",
                    EscapeHtml(result.header.columns[c].name), "</h3>\n",
                    CurvePlot(result, pictured, c), "</section>\n");
  }
  html += "</div>\n<div class=\"scroll\"><table><thead><tr><th>quantizer</th>";
  for (const size_t r : pictured) {
    absl::StrAppend(&html, "<th>", EscapeHtml(result.recipes[r].label),
                    ": saturated</th><th class=\"wide\">underflow</th>"
                    "<th class=\"wide\">staleness, largest</th>");
  }
  html += "</tr></thead><tbody>\n";
  for (const size_t c : Worst(result, pictured, kWorstRows)) {
    absl::StrAppend(&html, "<tr>",
                    Cell(EscapeHtml(result.header.columns[c].name)));
    for (const size_t r : pictured) {
      const SlotStatistics& s = result.recipes[r].slots[c];
      absl::StrAppend(
          &html, Cell(s.tensors > 0 ? Percent(s.saturated_share()) : "&ndash;"),
          Cell(s.elements > 0 ? Percent(s.underflow_share()) : "&ndash;", true),
          Cell(Ratio(static_cast<double>(s.max_staleness)), true));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n</section>\n";
}

std::string Ranks(const ReplayResult& result) {
  std::string html = "<section id=\"ranks\"><h2>Ranks</h2>\n";
  if (result.ranks < 2) {
    return html + "<p>The trace is of one rank.</p>\n</section>\n";
  }
  const RankShares& shares = result.rank_shares;
  std::vector<size_t> order;
  size_t equal = 0;
  for (size_t c = 0; c < result.header.columns.size(); ++c) {
    const RankShares::Entry& entry = shares.entry(c);
    if (entry.steps > entry.equal) {
      order.push_back(c);
    } else {
      ++equal;
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return shares.entry(a).max_ratio > shares.entry(b).max_ratio;
  });
  absl::StrAppend(&html, "<p>", order.size(), " of ",
                  result.header.columns.size(),
                  " quantizers have other amaxes on some rank, ", equal,
                  " the same on all. Those that differ most, and which rank "
                  "had the largest amax:</p>\n<div class=\"legend\">");
  const size_t ranks = std::min(result.ranks, kBarRanks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    absl::StrAppend(&html, "<span><i class=\"key r", rank, "\"></i>rank ", rank,
                    "</span>");
  }
  absl::StrAppend(&html,
                  "<span><i class=\"key\" style=\"background:var(--line)\">"
                  "</i>none alone</span></div>\n<div class=\"scroll\"><table>"
                  "<thead><tr><th>quantizer</th><th>largest / smallest</th>"
                  "<th class=\"wide\">mean</th><th>share of steps</th></tr>"
                  "</thead><tbody>\n");
  for (size_t i = 0; i < std::min(order.size(), kRankRows); ++i) {
    const size_t c = order[i];
    const RankShares::Entry& entry = shares.entry(c);
    std::string bar = "<span class=\"bar\">";
    std::string title;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const double share = static_cast<double>(shares.largest(c, rank)) /
                           static_cast<double>(entry.steps);
      absl::StrAppendFormat(&bar,
                            "<i class=\"r%d\" style=\"width:%.2f%%\"></i>",
                            rank, 100 * share);
      absl::StrAppend(&title, rank == 0 ? "" : ", ", "rank ", rank, " ",
                      Percent(share));
    }
    absl::StrAppend(
        &html, "<tr title=\"", EscapeHtml(title), "\">",
        Cell(EscapeHtml(result.header.columns[c].name)),
        Cell(absl::StrFormat("%.2f", entry.max_ratio)),
        Cell(absl::StrFormat("%.2f",
                             std::exp2(entry.log2_sum() /
                                       static_cast<double>(entry.steps))),
             true),
        Cell(bar + "</span>"), "</tr>\n");
  }
  return html + "</tbody></table></div>\n</section>\n";
}

}  // namespace

std::string HtmlReport(const ReplayResult& result, const std::string& source) {
  const std::vector<size_t> pictured = Pictured(result);
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>Scalekeeper: what recipes lose</title>\n"
      "<style>",
      kReportStyle, "</style>\n</head>\n<body>\n<main>\n",
      "<h1>What recipes lose of this run</h1>\n<p class=\"soft\">",
      result.steps, " steps (", result.first_step, " to ", result.last_step,
      "), ", result.header.columns.size(), " quantizers, ", result.ranks,
      result.ranks == 1 ? " rank" : " ranks", ", ", result.recipes.size(),
      result.recipes.size() == 1 ? " recipe" : " recipes", ", ",
      result.non_finite, " amaxes of inf or NaN; ", EscapeHtml(source),
      "</p>\n<p class=\"verdict\" id=\"verdict\">",
      EscapeHtml(ExplainRanking(result)), "</p>\n");
  for (const std::string& warning : result.warnings) {
    absl::StrAppend(&html, "<p class=\"soft\">", EscapeHtml(warning), "</p>\n");
  }
  absl::StrAppend(&html, Events(result), Ranking(result));
  if (!pictured.empty()) {
    absl::StrAppend(&html, Headroom(result, pictured),
                    Curves(result, pictured));
  }
  return absl::StrCat(html, Ranks(result), "</main>\n</body>\n</html>\n");
}

}  // namespace scalekeeper
