#include "recipe/check.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "re2/re2.h"
#include "recipe/field_limits.h"

namespace scalekeeper {
namespace {

class Checker {
 public:
  explicit Checker(Faults& faults) : faults_(faults) {}

  void Check(const RecipeSpec& spec) {
    if (spec.defaults) defaults_ = &*spec.defaults;
    Range("", "schema_version", spec.schema_version);
    Defaults(spec.defaults);
    Rules("", spec.rules);
    AmaxReduction("amax_reduction", spec.amax_reduction);
    Matmul("matmul", spec.matmul);
    Phases(spec.phases);
    if (spec.update) {
      Range("update.", "interval", spec.update->interval);
      Range("update.", "staleness", spec.update->staleness);
    }
  }

 private:
  // Whether the value is allowed; says so if not.
  bool Range(const std::string& prefix, absl::string_view field,
             const std::optional<int64_t>& value) {
    const IntegerLimits limits = LimitsOf(field);
    if (!value || limits.Allows(*value)) return true;
    AddRangeFault(absl::StrCat(prefix, field), *value, limits, faults_);
    return false;
  }

  void Defaults(const std::optional<RolePoliciesSpec>& defaults) {
    if (!defaults) {
      faults_.Add("defaults",
                  "got nothing, want a policy with a scaling for every role");
      return;
    }
    CheckPolicies("defaults.", *defaults, nullptr, faults_);
    if (defaults->all) return;
    const auto require = [&](const char* role,
                             const std::optional<PolicySpec>& policy) {
      if (!policy) {
        faults_.Add(absl::StrCat("defaults.", role),
                    "got nothing, want a policy with a scaling for every role "
                    "(or `all`)");
      }
    };
    require("input", defaults->input);
    require("weight", defaults->weight);
    require("grad", defaults->grad);
  }

  void Matmul(const std::string& path, const std::optional<MatmulSpec>& spec) {
    if (!spec) return;
    OneGemm(path + ".fprop", spec->fprop);
    OneGemm(path + ".dgrad", spec->dgrad);
    OneGemm(path + ".wgrad", spec->wgrad);
  }

  void OneGemm(const std::string& path, const std::optional<GemmSpec>& spec) {
    if (!spec) return;
    if (!spec->high_precision.value_or(false)) return;
    const auto no_effect = [&](absl::string_view field, bool value) {
      faults_.Add(absl::StrCat(path, ".", field),
                  absl::StrCat("got ", value ? "true" : "false",
                               " beside high_precision: true, where it has no "
                               "effect, want no ",
                               field));
    };
    if (spec->fast_accum) no_effect("fast_accum", *spec->fast_accum);
    if (spec->emulate) no_effect("emulate", *spec->emulate);
  }

  void AmaxReduction(const std::string& path,
                     const std::optional<AmaxReductionSpec>& spec) {
    if (!spec || !spec->group) return;
    if (!spec->enabled.value_or(true)) {
      faults_.Add(
          path + ".group",
          absl::StrCat(
              "got ", Quoted(*spec->group),
              " beside enabled: false, where it has no effect, want no group"));
    } else if (spec->group->empty()) {
      faults_.Add(path + ".group", "got \"\", want a name");
    }
  }

  void ItemsOf(const std::string& prefix, const ItemsSpec& spec) {
    CheckPolicies(prefix, spec, defaults_, faults_);
    Matmul(prefix + "matmul", spec.matmul);
    AmaxReduction(prefix + "amax_reduction", spec.amax_reduction);
  }

  void Rules(const std::string& prefix, const std::vector<RuleSpec>& rules) {
    for (size_t i = 0; i < rules.size(); ++i) {
      OneRule(absl::StrCat(prefix, "rule[", i, "]"), rules[i]);
    }
  }

  void OneRule(const std::string& path, const RuleSpec& rule) {
    if (rule.module && rule.layers) {
      faults_.Add(path + ".layers",
                  "got both module and layers, want one of them");
    } else if (!rule.module && !rule.layers) {
      faults_.Add(path, "got neither module nor layers, want one of them");
    }
    if (rule.module) Pattern(path + ".module", *rule.module, false);
    if (rule.layers) LayersOf(path + ".layers", *rule.layers);
    ItemsOf(path + ".", rule);
    const bool sets_gemm =
        rule.matmul &&
        (rule.matmul->fprop || rule.matmul->dgrad || rule.matmul->wgrad);
    if (!rule.input && !rule.weight && !rule.grad && !rule.all && !sets_gemm &&
        !rule.amax_reduction) {
      faults_.Add(path,
                  "sets nothing, want at least one of input, weight, grad, "
                  "all, matmul (with a GEMM), amax_reduction");
    }
  }

  void LayersOf(const std::string& path, const LayersSpec& layers) {
    if (layers.pattern) {
      Pattern(path + ".pattern", *layers.pattern, true);
    } else {
      faults_.Add(path + ".pattern",
                  "got nothing, want a pattern whose one group captures the "
                  "layer's number");
    }
    Range(path + ".", "first", layers.first);
    Range(path + ".", "last", layers.last);
    if (layers.last_percent &&
        !(*layers.last_percent >= 0 && *layers.last_percent <= 100)) {
      faults_.Add(path + ".last_percent",
                  absl::StrCat("got ", ShortestNumber(*layers.last_percent),
                               ", want 0..100"));
    }
    if (layers.last && layers.last_percent) {
      faults_.Add(path + ".last_percent",
                  "got both last and last_percent, want one of them");
    }
    if (!layers.first && !layers.last && !layers.last_percent) {
      faults_.Add(path,
                  "got no layers, want at least one of first, last, "
                  "last_percent");
    }
  }

  void Pattern(const std::string& path, const std::string& pattern,
               bool by_layer) {
    RE2::Options options;
    options.set_log_errors(false);
    const RE2 re(pattern, options);
    if (!re.ok()) {
      faults_.Add(path, absl::StrCat("got ", Quoted(pattern),
                                     ", want an RE2 pattern: ", re.error()));
    } else if (by_layer && re.NumberOfCapturingGroups() != 1) {
      faults_.Add(path, absl::StrCat("got ", re.NumberOfCapturingGroups(),
                                     " capturing groups in ", Quoted(pattern),
                                     ", want exactly 1, the layer's number "
                                     "(others as (?:...))"));
    } else if (pattern.empty()) {
      faults_.Add(path, "got \"\", which matches no module, want a pattern");
    }
  }

  void Phases(const std::vector<PhaseSpec>& phases) {
    std::optional<int64_t> before;
    for (size_t i = 0; i < phases.size(); ++i) {
      const PhaseSpec& phase = phases[i];
      const std::string path = absl::StrCat("phase[", i, "]");
      if (!phase.from_step) {
        faults_.Add(path + ".from_step", "got nothing, want a step >= 0");
      } else {
        const bool in_range = Range(path + ".", "from_step", phase.from_step);
        if (in_range && before && *phase.from_step <= *before) {
          faults_.Add(path + ".from_step",
                      absl::StrCat("got ", *phase.from_step, ", want > ",
                                   *before, " (that of the phase before)"));
        }
        before = phase.from_step;
      }
      ItemsOf(path + ".", phase);
      Rules(path + ".", phase.rules);
    }
  }

  Faults& faults_;
  const RolePoliciesSpec* defaults_ = nullptr;  // null if there are none
};

}  // namespace

void CheckSpec(const RecipeSpec& spec, Faults& faults) {
  Checker(faults).Check(spec);
}

}  // namespace scalekeeper
