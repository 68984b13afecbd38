#include "replay/report_plots.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "numerics/format.h"

namespace scalekeeper {
namespace {

constexpr size_t kLevels = 8;
constexpr std::array<const char*, kLevels> kLevelNames = {
    "saturates, 2-fold or more",
    "saturates",
    "below 1 bit unused",
    "1 to 2 bits",
    "2 to 4",
    "4 to 8",
    "8 to 16",
    "more than 16"};
// Rounding of the logarithms.
constexpr float kZero = -1e-5f;
constexpr int kRowPixels = 6;

size_t Level(const Extremes& headroom) {
  if (headroom.low <= -1) return 0;
  if (headroom.low < kZero) return 1;
  constexpr std::array<float, 5> kBounds = {1, 2, 4, 8, 16};
  size_t level = 2;
  for (const float bound : kBounds) level += headroom.high >= bound ? 1 : 0;
  return level;
}

std::string Percentage(double share) {
  return absl::StrFormat("%.2f%%", 100 * share);
}

// The frame of a plot: event marks above, names left, canvas, ticks below.
class Plot {
 public:
  Plot(const ReplayResult& result, size_t bins, int height, bool small)
      : result_(result), bins_(bins), height_(height), small_(small) {}

  // `share` of the height, from the top.
  void Name(double share, absl::string_view html, absl::string_view title) {
    absl::StrAppend(&names_, "<span style=\"top:", Percentage(share),
                    "\" title=\"", EscapeHtml(title), "\">", html, "</span>");
  }

  // `svg`: in a box of width `bins` and height `box_height`.
  std::string Html(absl::string_view svg, double box_height,
                   absl::string_view label) const {
    std::string html = absl::StrCat(
        "<div class=\"plot", small_ ? " small" : "", "\">", Marks(),
        "<div class=\"names\" style=\"height:", height_, "px\">", names_,
        "</div><div class=\"canvas\" style=\"height:", height_,
        "px\"><svg role=\"img\" aria-label=\"", EscapeHtml(label),
        "\" viewBox=\"0 0 ", bins_, " ", absl::StrFormat("%g", box_height),
        "\" preserveAspectRatio=\"none\">", svg, "</svg>");
    for (const TraceEvent& event : result_.events) {
      const double begin = At(event.first_row);
      absl::StrAppend(&html, "<div class=\"band\" title=\"",
                      EscapeHtml(scalekeeper::Name(event)),
                      "\" style=\"left:", Percentage(begin),
                      ";width:", Percentage(At(event.last_row + 1) - begin),
                      "\"></div>");
    }
    return absl::StrCat(html, "</div>", Ticks(), "</div>\n");
  }

 private:
  // Of a row, as a share of the width.
  double At(size_t row) const {
    return std::min(1.0, static_cast<double>(row) /
                             static_cast<double>(result_.amax.rows_per_bin()) /
                             static_cast<double>(bins_));
  }

  std::string Marks() const {
    const TraceEvent* const event = MainEvent(result_);
    std::string mark;
    if (event != nullptr) {
      const double begin = At(event->first_row);
      mark = absl::StrCat(
          "<b style=\"",
          begin > 0.5
              ? absl::StrCat("right:", Percentage(1 - At(event->last_row + 1)))
              : absl::StrCat("left:", Percentage(begin)),
          "\">", EscapeHtml(scalekeeper::Name(*event)), "</b>");
    }
    return absl::StrCat("<div class=\"marks\">", mark, "</div>");
  }

  std::string Ticks() const {
    std::string html = "<div class=\"ticks\">";
    const size_t ticks = std::min<size_t>(4, bins_);
    for (size_t i = 0; i <= ticks; ++i) {
      const bool last = i == ticks;
      const size_t bin = std::min(bins_ * i / ticks, bins_ - 1);
      if (last && ticks == 1 && bins_ == 1) break;
      absl::StrAppend(
          &html, "<span", i % 2 == 1 ? " class=\"minor\"" : "",
          " style=\"left:",
          Percentage(static_cast<double>(i) / static_cast<double>(ticks)),
          "\">", i == 0 ? "step " : "",
          last ? result_.last_step : result_.bin_steps[bin], "</span>");
    }
    return html + "</div>";
  }

  const ReplayResult& result_;
  const size_t bins_;
  const int height_;
  const bool small_;
  std::string names_;
};

// A line through the bins' values; gaps where there are none. `at(bin, &y)`
// says whether there is one.
template <typename At>
std::string LinePath(size_t bins, double box, double low, double high,
                     absl::string_view classes, const At& at) {
  std::string d;
  bool drawing = false;
  for (size_t b = 0; b < bins; ++b) {
    double value = 0;
    if (!at(b, &value)) {
      drawing = false;
      continue;
    }
    const double y =
        box * (1 - (std::clamp(value, low, high) - low) / (high - low));
    // Each bin is a level piece, so that a single one is seen as well.
    absl::StrAppend(&d, drawing ? "V" : absl::StrCat("M", b, " "),
                    absl::StrFormat("%.1f", y), "h1");
    drawing = true;
  }
  return absl::StrCat("<path class=\"", classes, "\" d=\"", d, "\"/>");
}

std::string GridLine(double y, size_t bins) {
  return absl::StrFormat("<path class=\"grid\" d=\"M0 %.1fH%d\"/>", y, bins);
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

const TraceEvent* MainEvent(const ReplayResult& result) {
  const TraceEvent* main = nullptr;
  for (const TraceEvent& event : result.events) {
    if (main == nullptr ||
        event.columns + (event.loss_jumped ? result.header.columns.size() : 0) >
            main->columns +
                (main->loss_jumped ? result.header.columns.size() : 0)) {
      main = &event;
    }
  }
  return main;
}

std::string LossPlot(const ReplayResult& result) {
  const size_t bins = result.loss.used();
  Extremes all;
  for (size_t b = 0; b < bins; ++b) {
    if (!result.loss.at(0, b).empty()) all.Add(result.loss.at(0, b));
  }
  if (all.empty()) return "";
  const double low = std::min(0.0, static_cast<double>(all.low));
  const double span = static_cast<double>(all.high) - low;
  const double high = low + (span > 0 ? span * 1.05 : 1);
  constexpr double kBox = 100;
  Plot plot(result, bins, 150, /*small=*/true);
  std::string svg;
  for (const double share : {0.05, 0.5, 0.95}) {
    const double value = high - share * (high - low);
    plot.Name(share, absl::StrFormat("%.3g", value), "loss");
    svg += GridLine(kBox * share, bins);
  }
  svg += LinePath(bins, kBox, low, high, "l k0", [&](size_t b, double* value) {
    *value = static_cast<double>(result.loss.at(0, b).high);
    return !result.loss.at(0, b).empty();
  });
  return plot.Html(svg, kBox, "loss over the steps");
}

std::string HeatMap(const ReplayResult& result, const RecipeResult& recipe,
                    const std::vector<size_t>& columns) {
  const size_t bins = recipe.headroom.used();
  const int height = static_cast<int>(columns.size()) * kRowPixels;
  Plot plot(result, bins, std::max(height, 24), /*small=*/false);
  std::array<std::string, kLevels> paths;
  for (size_t row = 0; row < columns.size(); ++row) {
    for (size_t b = 0; b < bins;) {
      const Extremes& cell = recipe.headroom.at(columns[row], b);
      if (cell.empty()) {
        ++b;
        continue;
      }
      const size_t level = Level(cell);
      size_t end = b + 1;
      while (end < bins && !recipe.headroom.at(columns[row], end).empty() &&
             Level(recipe.headroom.at(columns[row], end)) == level) {
        ++end;
      }
      absl::StrAppend(&paths[level], "M", b, " ", row, ".5h", end - b);
      b = end;
    }
  }
  std::string svg;
  for (size_t level = 0; level < kLevels; ++level) {
    if (paths[level].empty()) continue;
    absl::StrAppend(&svg, "<path class=\"h h", level, "\" d=\"", paths[level],
                    "\"/>");
  }
  // One name per module, where a module's rows leave room for it.
  constexpr int kNamePixels = 15;
  int free_from = 0;
  for (size_t begin = 0; begin < columns.size();) {
    const std::string& module = result.header.columns[columns[begin]].module;
    size_t end = begin + 1;
    while (end < columns.size() &&
           result.header.columns[columns[end]].module == module) {
      ++end;
    }
    const double middle = static_cast<double>(begin + end) / 2;
    const int pixel = static_cast<int>(middle * kRowPixels);
    if (pixel - kNamePixels / 2 >= free_from) {
      plot.Name(middle / static_cast<double>(columns.size()),
                EscapeHtml(module), module);
      free_from = pixel + kNamePixels / 2 + 1;
    }
    begin = end;
  }
  return plot.Html(svg, static_cast<double>(columns.size()),
                   absl::StrCat("headroom under ", recipe.label));
}

std::string HeatLegend() {
  std::string html = "<div class=\"legend\">";
  for (size_t level = 0; level < kLevels; ++level) {
    absl::StrAppend(&html, "<span><i class=\"key\" style=\"background:var(--h",
                    level, ")\"></i>", kLevelNames[level], "</span>");
  }
  return html + "</div>\n";
}

std::string CurvePlot(const ReplayResult& result,
                      const std::vector<size_t>& recipes, size_t column) {
  const size_t bins = result.amax.used();
  // log2(format_max / scale): what the scale can hold, at least in a bin; for
  // current scaling, where it follows the amax, at most.
  const auto ceiling = [&](size_t r, size_t b) {
    const Policy& policy = result.recipes[r].policies[column];
    const Extremes& scale = result.recipes[r].scale.at(column, b);
    return std::log2(static_cast<double>(FormatMax(policy.format))) -
           static_cast<double>(
               policy.scaling == Scaling::kCurrent ? scale.low : scale.high);
  };
  const auto has_ceiling = [&](size_t r, size_t b) {
    return !result.recipes[r].scale.at(column, b).empty();
  };
  Extremes range;
  for (size_t b = 0; b < bins; ++b) {
    if (!result.amax.at(column, b).empty())
      range.Add(result.amax.at(column, b));
    for (const size_t r : recipes) {
      if (has_ceiling(r, b)) range.Note(static_cast<float>(ceiling(r, b)));
    }
  }
  if (range.empty()) return "";
  const double low = std::floor(static_cast<double>(range.low) - 0.5);
  const double high = std::ceil(static_cast<double>(range.high) + 0.5);
  constexpr double kBox = 100;
  Plot plot(result, bins, 170, /*small=*/true);
  std::string svg;
  for (const double share : {0.05, 0.5, 0.95}) {
    const double value = std::round(high - share * (high - low));
    const double at = (high - value) / (high - low);
    plot.Name(std::clamp(at, 0.04, 0.96),
              absl::StrFormat("2<sup>%.0f</sup>", value), "largest magnitude");
    svg += GridLine(kBox * at, bins);
  }
  for (size_t i = 0; i < recipes.size(); ++i) {
    svg += LinePath(bins, kBox, low, high, absl::StrCat("l k", i),
                    [&](size_t b, double* value) {
                      if (!has_ceiling(recipes[i], b)) return false;
                      *value = ceiling(recipes[i], b);
                      return true;
                    });
  }
  svg += LinePath(bins, kBox, low, high, "l a", [&](size_t b, double* value) {
    *value = static_cast<double>(result.amax.at(column, b).high);
    return !result.amax.at(column, b).empty();
  });
  return plot.Html(svg, kBox,
                   absl::StrCat("amax and ceilings of ",
                                result.header.columns[column].name));
}

}  // namespace scalekeeper
