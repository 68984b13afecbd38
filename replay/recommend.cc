#include "replay/recommend.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "re2/re2.h"
#include "replay/ranking.h"

namespace scalekeeper {
namespace {

constexpr size_t kHeldOutRun = 30;
constexpr std::array<int, 6> kWindows = {1024, 256, 64, 16, 4, 1};
constexpr std::array<int, 3> kMargins = {0, 1, 2};

// One policy that all quantizers try at once; E4M3 except for grad.
struct Candidate {
  int window = 0;  // 0: current scaling
  int margin = 0;
  Format grad_format = Format::kE5M2;

  std::string PolicyText(Role role) const {
    const Format format = role == Role::kGrad ? grad_format : Format::kE4M3;
    if (window == 0)
      return absl::StrCat("format: ", Name(format), " current {}");
    return absl::StrCat("format: ", Name(format),
                        " delayed { amax_history_len: ", window,
                        " margin: ", margin, " amax_compute_algo: MAX }");
  }
};

std::vector<Candidate> Candidates(const RecommendOptions& options) {
  std::vector<Candidate> candidates;
  for (const Format format : {Format::kE5M2, Format::kE4M3}) {
    for (const int margin : kMargins) {
      for (const int window : kWindows) {
        candidates.push_back({window, margin, format});
      }
    }
    if (options.allow_current) candidates.push_back({0, 0, format});
  }
  return candidates;
}

std::string RecipeText(const Candidate& candidate) {
  std::string text = "defaults {\n";
  for (const Role role : kRoles) {
    absl::StrAppend(&text, "  ", Name(role), " { ", candidate.PolicyText(role),
                    " }\n");
  }
  return text + "}\n";
}

// The first candidate with the least loss; `allowed` says which may be chosen.
template <typename Loss, typename Allowed>
size_t Least(const std::vector<Candidate>& candidates, const Loss& loss,
             const Allowed& allowed) {
  size_t best = candidates.size();
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!allowed(candidates[i])) continue;
    if (best == candidates.size() || loss(i) < loss(best)) best = i;
  }
  return best;
}

std::string Figures(const SlotStatistics& statistics, bool histograms) {
  std::string text = absl::StrCat(Percent(statistics.saturated_share()),
                                  " of the tensors saturate");
  if (histograms) {
    absl::StrAppend(&text, ", ", Percent(statistics.underflow_share()),
                    " of the elements underflow");
  }
  return text;
}

struct RuleChoice {
  size_t column = 0;
  size_t candidate = 0;
  double before = 0;
  double after = 0;
};

class Recommender {
 public:
  Recommender(const ReplayResult& tried, std::vector<Candidate> candidates,
              const RecommendOptions& options)
      : tried_(tried), candidates_(std::move(candidates)), options_(options) {
    for (const Role role : kRoles) {
      chosen_[static_cast<size_t>(role)] = ChooseRole(role);
    }
    ChooseRules();
  }

  size_t rules() const { return rules_.size(); }

  std::string Text(const std::string& figures) const {
    std::string text = absl::StrCat(
        "# Recommended by `scalekeeper recommend` from steps ",
        tried_.first_step, " to ", tried_.last_step, " of a run on ",
        tried_.ranks, tried_.ranks == 1 ? " rank.\n" : " ranks.\n");
    if (tried_.histograms == 0) {
      text +=
          "# The trace has no histograms: underflow was not seen, grad is "
          "left in E5M2.\n";
    }
    absl::StrAppend(&text, figures, "name: \"recommended\"\n\ndefaults {\n");
    for (const Role role : kRoles) {
      const size_t i = chosen_[static_cast<size_t>(role)];
      absl::StrAppend(&text, "  # ", Figures(RoleTotal(role, i), histograms()),
                      "; ", Reason(role, i), "\n  ", Name(role), " { ",
                      candidates_[i].PolicyText(role), " }\n");
    }
    text += "}\n";
    for (const RuleChoice& rule : rules_) {
      const TraceColumn& column = tried_.header.columns[rule.column];
      absl::StrAppend(
          &text, "\n# ", column.name, ": loses ", Percent(rule.after), " so, ",
          Percent(rule.before), " under its role's policy.\nrule {\n",
          "  module: \"", TextEscaped(RE2::QuoteMeta(column.module)), "\"\n  ",
          Name(column.role), " { ",
          candidates_[rule.candidate].PolicyText(column.role), " }\n}\n");
    }
    return text;
  }

 private:
  bool histograms() const { return tried_.histograms > 0; }
  bool MayChoose(Role role, const Candidate& candidate) const {
    // Without histograms nothing speaks for more precision and less range.
    return role == Role::kGrad
               ? histograms() || candidate.grad_format == Format::kE5M2
               : candidate.grad_format == Format::kE5M2;
  }
  const SlotStatistics& Tried(size_t candidate, size_t column) const {
    return tried_.recipes[candidate].slots[column];
  }
  SlotStatistics RoleTotal(Role role, size_t candidate) const {
    SlotStatistics total;
    for (size_t c = 0; c < tried_.header.columns.size(); ++c) {
      if (tried_.header.columns[c].role == role) total.Add(Tried(candidate, c));
    }
    return total;
  }

  size_t ChooseRole(Role role) const {
    std::vector<double> losses;
    losses.reserve(candidates_.size());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      losses.push_back(RoleTotal(role, i).loss());
    }
    return Least(
        candidates_, [&](size_t i) { return losses[i]; },
        [&](const Candidate& candidate) {
          return candidate.window > 0 && MayChoose(role, candidate);
        });
  }

  void ChooseRules() {
    for (size_t c = 0; c < tried_.header.columns.size(); ++c) {
      const TraceColumn& column = tried_.header.columns[c];
      if (!IsLayerColumn(column)) continue;
      const size_t role_choice = chosen_[static_cast<size_t>(column.role)];
      const size_t best = Least(
          candidates_, [&](size_t i) { return Tried(i, c).loss(); },
          [&](const Candidate& candidate) {
            return MayChoose(column.role, candidate) &&
                   candidate.grad_format ==
                       candidates_[role_choice].grad_format;
          });
      const double before = Tried(role_choice, c).loss();
      const double after = Tried(best, c).loss();
      if (before > options_.worthwhile && after < before / 2) {
        rules_.push_back({c, best, before, after});
      }
    }
    std::stable_sort(rules_.begin(), rules_.end(),
                     [](const RuleChoice& a, const RuleChoice& b) {
                       return a.before - a.after > b.before - b.after;
                     });
    if (rules_.size() > options_.max_rules) rules_.resize(options_.max_rules);
  }

  // What the choice is better than.
  std::string Reason(Role role, size_t chosen) const {
    const Candidate& choice = candidates_[chosen];
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& usual = candidates_[i];
      if (usual.window != 1024 || usual.margin != 0 ||
          usual.grad_format != Format::kE5M2) {
        continue;
      }
      if (i == chosen) {
        return "no other window or margin loses less";
      }
      return absl::StrCat(
          "a window of ", usual.window, " without margin",
          role == Role::kGrad && choice.grad_format != Format::kE5M2
              ? " in E5M2"
              : "",
          ": ", Figures(RoleTotal(role, i), histograms()));
    }
    return "";
  }

  static std::string TextEscaped(const std::string& text) {
    return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}});
  }

  const ReplayResult& tried_;
  const std::vector<Candidate> candidates_;
  const RecommendOptions& options_;
  std::array<size_t, 3> chosen_ = {};
  std::vector<RuleChoice> rules_;
};

Recommendation::Figures FiguresOf(const RecipeResult& recipe) {
  return {recipe.total, recipe.held_out};
}

}  // namespace

bool IsHeldOut(size_t row) { return row / kHeldOutRun % 4 == 3; }

absl::StatusOr<Recommendation> Recommend(
    const std::function<absl::StatusOr<RankedTrace>()>& open,
    const LabeledRecipe& baseline, const RecommendOptions& options) {
  const std::vector<Candidate> candidates = Candidates(options);
  std::vector<LabeledRecipe> recipes;
  for (const Candidate& candidate : candidates) {
    SK_ASSIGN_OR_RETURN(Recipe recipe,
                        Recipe::Parse(RecipeText(candidate), "candidate"));
    recipes.push_back({candidate.PolicyText(Role::kGrad), std::move(recipe)});
  }
  ReplayOptions replay;
  replay.threads = options.threads;
  replay.progress = options.progress;
  replay.held_out = IsHeldOut;
  SK_ASSIGN_OR_RETURN(RankedTrace trace, open());
  SK_ASSIGN_OR_RETURN(const ReplayResult tried,
                      Replay(&trace, recipes, replay));
  const Recommender recommender(tried, candidates, options);

  // The file judges itself: what it says is what is replayed.
  SK_ASSIGN_OR_RETURN(Recipe recommended,
                      Recipe::Parse(recommender.Text(""), "recommended"));
  SK_ASSIGN_OR_RETURN(RankedTrace again, open());
  SK_ASSIGN_OR_RETURN(
      const ReplayResult judged,
      Replay(&again, {baseline, {"recommended", std::move(recommended)}},
             replay));
  Recommendation result;
  result.warnings = tried.warnings;
  result.rules = recommender.rules();
  result.baseline = FiguresOf(judged.recipes[0]);
  result.recommended = FiguresOf(judged.recipes[1]);
  const bool histograms = tried.histograms > 0;
  result.text = recommender.Text(absl::StrCat(
      "#\n# On the steps it was chosen on, and on those held out (of every "
      "four runs of ",
      kHeldOutRun, "\n# steps the last):\n#   this recipe: ",
      Figures(result.recommended.chosen_on, histograms), ";\n#     held out: ",
      Figures(result.recommended.held_out, histograms), ".\n#   ",
      baseline.label, ": ", Figures(result.baseline.chosen_on, histograms),
      ";\n#     held out: ", Figures(result.baseline.held_out, histograms),
      ".\n\n"));
  return result;
}

}  // namespace scalekeeper
