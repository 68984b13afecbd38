#include "replay/sweep.h"

#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

const std::vector<std::string>& Options() {
  static const auto* const options = new std::vector<std::string>{
      "amax_history_len", "margin", "amax_compute_algo", "interval",
      "staleness"};
  return *options;
}

// All delayed policies that the recipe writes out.
std::vector<DelayedSpec*> DelayedSpecs(RecipeSpec* spec) {
  std::vector<DelayedSpec*> found;
  const auto add = [&](RolePoliciesSpec* roles) {
    for (std::optional<PolicySpec>* policy :
         {&roles->input, &roles->weight, &roles->grad, &roles->all}) {
      if (!policy->has_value()) continue;
      if (auto* delayed = std::get_if<DelayedSpec>(&(*policy)->scaling)) {
        found.push_back(delayed);
      }
    }
  };
  if (spec->defaults) add(&*spec->defaults);
  for (RuleSpec& rule : spec->rules) add(&rule);
  for (PhaseSpec& phase : spec->phases) {
    add(&phase);
    for (RuleSpec& rule : phase.rules) add(&rule);
  }
  return found;
}

// Of the recipe, not of its policies.
bool IsOfUpdate(absl::string_view option) {
  return option == "interval" || option == "staleness";
}

void SetUpdate(const std::string& option, const std::string& value,
               RecipeSpec* spec) {
  if (!spec->update) spec->update.emplace();
  int64_t number = 0;
  if (!absl::SimpleAtoi(value, &number)) return;
  (option == "interval" ? spec->update->interval : spec->update->staleness) =
      number;
}

void Set(const std::string& option, const std::string& value,
         DelayedSpec* delayed) {
  int64_t number = 0;
  if (option == "amax_compute_algo") {
    delayed->amax_compute_algo = value == Name(AmaxComputeAlgo::kMax)
                                     ? AmaxComputeAlgo::kMax
                                     : AmaxComputeAlgo::kMostRecent;
  } else if (absl::SimpleAtoi(value, &number)) {
    (option == "margin" ? delayed->margin : delayed->amax_history_len) = number;
  }
}

}  // namespace

absl::StatusOr<SweepAxis> ParseSweepAxis(absl::string_view text) {
  const size_t equals = text.find('=');
  SweepAxis axis;
  axis.option = std::string(text.substr(0, equals));
  bool known = false;
  for (const std::string& option : Options()) {
    known = known || option == axis.option;
  }
  if (!known || equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sweep: got ", Quoted(text),
                     ", want amax_history_len=..., margin=..., "
                     "amax_compute_algo=..., interval=... or staleness=...",
                     DidYouMean(axis.option, Options())));
  }
  axis.values = absl::StrSplit(text.substr(equals + 1), ',');
  for (const std::string& value : axis.values) {
    int64_t number = 0;
    const bool good = axis.option == "amax_compute_algo"
                          ? value == "MAX" || value == "MOST_RECENT"
                          : absl::SimpleAtoi(value, &number);
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--sweep: ", axis.option, ": got ", Quoted(value), ", want ",
          axis.option == "amax_compute_algo" ? "MAX or MOST_RECENT"
                                             : "an integer"));
    }
  }
  return axis;
}

absl::StatusOr<std::vector<LabeledRecipe>> Sweep(
    const LabeledRecipe& recipe, const std::vector<SweepAxis>& axes) {
  struct Variant {
    std::string label;
    RecipeSpec spec;
  };
  std::vector<Variant> variants = {{recipe.label, recipe.recipe.spec()}};
  for (size_t a = 0; a < axes.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (axes[a].option != axes[b].option) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--sweep: got ", axes[a].option,
                       " twice, want all its values in "
                       "one --sweep"));
    }
    std::vector<Variant> next;
    for (const Variant& variant : variants) {
      for (const std::string& value : axes[a].values) {
        Variant made = variant;
        absl::StrAppend(&made.label, " ", axes[a].option, "=", value);
        const std::vector<DelayedSpec*> delayed = DelayedSpecs(&made.spec);
        if (delayed.empty()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "--sweep: recipe ", Quoted(recipe.label),
              " has no delayed policy, of which ", axes[a].option, " is"));
        }
        if (IsOfUpdate(axes[a].option)) {
          SetUpdate(axes[a].option, value, &made.spec);
        } else {
          for (DelayedSpec* spec : delayed) Set(axes[a].option, value, spec);
        }
        next.push_back(std::move(made));
      }
    }
    variants = std::move(next);
  }
  std::vector<LabeledRecipe> recipes;
  for (Variant& variant : variants) {
    absl::StatusOr<Recipe> made = Recipe::Create(variant.spec);
    if (!made.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--sweep: ", variant.label, ": ", made.status().message()));
    }
    recipes.push_back({variant.label, *std::move(made)});
  }
  return recipes;
}

}  // namespace scalekeeper
