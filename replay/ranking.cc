#include "replay/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace scalekeeper {
namespace {

// How far the median scale is from a fresh one, in bits.
double Staleness(const RecipeResult& recipe) {
  const double median = recipe.total.staleness.Quantile(0.5);
  return median > 0 ? std::abs(std::log2(median)) : 0;
}

// ", most in layers.0.fc1/grad": where a recipe saturates most, when it does.
std::string WhereItSaturates(const ReplayResult& result,
                             const RecipeResult& recipe) {
  size_t worst = 0;
  for (size_t c = 1; c < recipe.slots.size(); ++c) {
    if (recipe.slots[c].saturated_tensors >
        recipe.slots[worst].saturated_tensors) {
      worst = c;
    }
  }
  if (recipe.slots[worst].saturated_tensors == 0) return "";
  return absl::StrCat(", most in ", result.header.columns[worst].name);
}

// "saturates 12 of 198000 tensors (0.006%, most in layers.0.fc1/grad)
// and underflows 0.02% of the
// elements".
std::string Losses(const ReplayResult& result, const RecipeResult& recipe) {
  const SlotStatistics& total = recipe.total;
  std::string text = total.saturated_tensors == 0
                         ? std::string("saturates no tensor")
                         : absl::StrCat("saturates ", total.saturated_tensors,
                                        " of ", total.tensors, " tensors (",
                                        Percent(total.saturated_share()),
                                        WhereItSaturates(result, recipe), ")");
  if (result.histograms > 0) {
    absl::StrAppend(&text, " and underflows ", Percent(total.underflow_share()),
                    " of the elements that are not 0");
  }
  return text;
}

// What kind of scaling the winner's slots have, and why that helps.
std::string Reason(const RecipeResult& recipe) {
  size_t current = 0;
  size_t delayed = 0;
  int64_t longest = 0;
  int64_t shortest = 65536;
  int margin = 0;
  for (size_t c = 0; c < recipe.policies.size(); ++c) {
    const Policy& policy = recipe.policies[c];
    current += policy.scaling == Scaling::kCurrent ? 1 : 0;
    if (policy.scaling != Scaling::kDelayed) continue;
    ++delayed;
    longest = std::max<int64_t>(longest, policy.delayed.amax_history_len);
    shortest = std::min<int64_t>(shortest, policy.delayed.amax_history_len);
    margin = std::max(margin, policy.delayed.margin);
  }
  if (delayed == 0 && current > 0) {
    return "each tensor is scaled by its own amax, so that no scale is stale";
  }
  std::string text;
  if (delayed > 0) {
    text = shortest == longest
               ? absl::StrCat("a window of ", longest)
               : absl::StrCat("windows of ", shortest, " to ", longest);
    absl::StrAppend(&text, longest == 1 ? " step" : " steps");
    if (margin > 0) {
      absl::StrAppend(&text, " and ", margin, margin == 1 ? " bit" : " bits",
                      " of margin leave room for amaxes that grow");
    } else {
      absl::StrAppend(&text, longest >= 64
                                 ? " remembers the peaks that come back"
                                 : " follows the amaxes closely");
    }
  }
  if (current > 0) {
    absl::StrAppend(&text, ", and ", current,
                    " quantizers use the tensor's own amax");
  }
  return text;
}

}  // namespace

std::string Percent(double share) {
  const double percent = 100 * share;
  if (percent == 0) return "0%";
  if (percent >= 10) return absl::StrFormat("%.1f%%", percent);
  if (percent >= 0.01) return absl::StrFormat("%.2g%%", percent);
  return absl::StrFormat("%.1e%%", percent);
}

std::vector<size_t> RankRecipes(const ReplayResult& result) {
  std::vector<size_t> order(result.recipes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const RecipeResult& x = result.recipes[a];
    const RecipeResult& y = result.recipes[b];
    const bool x_judged = x.total.tensors > 0;
    const bool y_judged = y.total.tensors > 0;
    if (x_judged != y_judged) return x_judged;
    if (x.total.loss() != y.total.loss()) {
      return x.total.loss() < y.total.loss();
    }
    return Staleness(x) < Staleness(y);
  });
  return order;
}

std::string ExplainRanking(const ReplayResult& result) {
  const std::vector<size_t> order = RankRecipes(result);
  const RecipeResult& best = result.recipes[order[0]];
  if (best.total.tensors == 0) {
    return absl::StrCat(
        best.label,
        ": nothing here can be judged from amaxes (high precision, or scales "
        "of rows and blocks).");
  }
  std::string text;
  if (order.size() == 1) {
    text = absl::StrCat(best.label, " ", Losses(result, best), ".");
  } else {
    text = absl::StrCat(best.label, " loses least: it ", Losses(result, best),
                        "; ", Reason(best), ".");
    const RecipeResult& next = result.recipes[order[1]];
    if (next.total.tensors > 0) {
      absl::StrAppend(&text, " The next, ", next.label, ", ",
                      Losses(result, next), ".");
    }
    size_t last = order.size() - 1;
    while (result.recipes[order[last]].total.tensors == 0) --last;
    if (last > 1) {
      const RecipeResult& worst = result.recipes[order[last]];
      absl::StrAppend(&text, " The most is lost by ", worst.label, ", which ",
                      Losses(result, worst), ".");
    }
  }
  if (result.histograms == 0) {
    absl::StrAppend(&text,
                    " Without histograms in the trace underflow is not seen.");
  }
  return text;
}

std::vector<size_t> WorstColumns(const RecipeResult& recipe) {
  std::vector<size_t> order;
  for (size_t c = 0; c < recipe.slots.size(); ++c) {
    if (recipe.judged[c]) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return recipe.slots[a].loss() > recipe.slots[b].loss();
  });
  return order;
}

std::string DescribeEvent(const ReplayResult& result, const TraceEvent& event) {
  std::string text = absl::StrCat(Name(event), ":");
  if (event.loss_jumped) {
    absl::StrAppendFormat(&text, " the loss jumps from %.3g to %.3g%s",
                          event.loss_before, event.loss_peak,
                          event.columns > 0 ? ";" : "");
  }
  if (event.columns > 0) {
    const std::string& worst = result.header.columns[event.worst_column].name;
    absl::StrAppend(&text, " ", event.columns, " of ",
                    result.header.columns.size(),
                    " amaxes move more than 16-fold, ", worst, " farthest (");
    if (std::isinf(event.worst_log2)) {
      absl::StrAppend(&text, "inf or NaN)");
    } else if (event.worst_log2 < 0) {
      absl::StrAppendFormat(&text, "to 1/%.0f)", std::exp2(-event.worst_log2));
    } else {
      absl::StrAppendFormat(&text, "to %.0f times)",
                            std::exp2(event.worst_log2));
    }
  }
  return text;
}

}  // namespace scalekeeper
