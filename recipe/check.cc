#include "recipe/check.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "re2/re2.h"
#include "recipe/field_limits.h"

namespace scalekeeper {
namespace {

constexpr char kScalings[] =
    "one of high_precision, delayed, current (rowwise, block, mxfp8, nvfp4, "
    "custom are not yet built)";

class Checker {
 public:
  explicit Checker(Faults& faults) : faults_(faults) {}

  void Check(const RecipeSpec& spec) {
    Range("", "schema_version", spec.schema_version);
    Defaults(spec.defaults);
    Rules("", spec.rules);
    AmaxReduction("amax_reduction", spec.amax_reduction);
    Matmul("matmul", spec.matmul);
    Phases(spec.phases);
  }

 private:
  // Whether the value is allowed; says so if not.
  bool Range(const std::string& prefix, absl::string_view field,
             const std::optional<int64_t>& value) {
    const IntegerLimits limits = LimitsOf(field);
    if (!value || limits.Allows(*value)) return true;
    faults_.Add(absl::StrCat(prefix, field),
                absl::StrCat("got ", *value, ", want ", limits.Want()));
    return false;
  }

  void Defaults(const std::optional<RolePoliciesSpec>& defaults) {
    if (!defaults) {
      faults_.Add("defaults",
                  "got nothing, want a policy with a scaling for every role");
      return;
    }
    Policies("defaults.", *defaults);
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

  void Policies(const std::string& prefix, const RolePoliciesSpec& spec) {
    OnePolicy(prefix + "input", spec.input);
    OnePolicy(prefix + "weight", spec.weight);
    OnePolicy(prefix + "grad", spec.grad);
    OnePolicy(prefix + "all", spec.all);
  }

  void OnePolicy(const std::string& path,
                 const std::optional<PolicySpec>& policy) {
    if (!policy) return;
    std::visit(
        [&](const auto& scaling) { CheckScaling(path, *policy, scaling); },
        policy->scaling);
  }

  void CheckScaling(const std::string& path, const PolicySpec&,
                    const std::monostate&) {
    faults_.Add(path, absl::StrCat("got no scaling, want ", kScalings));
  }

  void CheckScaling(const std::string& path, const PolicySpec& policy,
                    const HighPrecisionSpec& scaling) {
    if (policy.format) {
      faults_.Add(path + ".format",
                  absl::StrCat("got ", Name(*policy.format),
                               " beside high_precision, where it has no "
                               "effect, want no format"));
    }
    if (scaling.dtype == DType::kUint8) {
      faults_.Add(path + ".high_precision.dtype",
                  "got uint8, want BF16, FP16 or FP32");
    }
  }

  void CheckScaling(const std::string& path, const PolicySpec& policy,
                    const DelayedSpec& scaling) {
    Fp8Format(path, policy, "delayed");
    Range(path + ".delayed.", "margin", scaling.margin);
    Range(path + ".delayed.", "amax_history_len", scaling.amax_history_len);
  }

  void CheckScaling(const std::string& path, const PolicySpec& policy,
                    const CurrentSpec& scaling) {
    Fp8Format(path, policy, "current");
    if (scaling.amax_epsilon) {
      const double v = *scaling.amax_epsilon;
      const bool fits = v >= 0 && v <= std::numeric_limits<float>::max() &&
                        (v == 0 || static_cast<float>(v) > 0);
      if (!fits) {
        faults_.Add(path + ".current.amax_epsilon",
                    absl::StrCat("got ", ShortestNumber(v),
                                 ", want a finite float32 >= 0"));
      }
    }
    if (scaling.amax_group) {
      faults_.Add(path + ".current.amax_group",
                  "not yet built, want no amax_group");
    }
  }

  void CheckScaling(const std::string& path, const PolicySpec&,
                    const NotBuiltSpec& scaling) {
    faults_.Add(absl::StrCat(path, ".", Name(scaling.scaling)),
                "not yet built, want high_precision, delayed or current");
  }

  void Fp8Format(const std::string& path, const PolicySpec& policy,
                 absl::string_view scaling) {
    if (policy.format == Format::kE2M1) {
      faults_.Add(path + ".format", absl::StrCat("got E2M1 with ", scaling,
                                                 ", want E4M3 or E5M2"));
    }
  }

  void Matmul(const std::string& path, const std::optional<MatmulSpec>& spec) {
    if (!spec) return;
    OneGemm(path + ".fprop", spec->fprop);
    OneGemm(path + ".dgrad", spec->dgrad);
    OneGemm(path + ".wgrad", spec->wgrad);
  }

  void OneGemm(const std::string& path, const std::optional<GemmSpec>& spec) {
    if (!spec) return;
    if (spec->fast_accum && spec->high_precision.value_or(false)) {
      faults_.Add(path + ".fast_accum",
                  absl::StrCat("got ", *spec->fast_accum ? "true" : "false",
                               " beside high_precision: true, where it has no "
                               "effect, want no fast_accum"));
    }
    if (spec->emulate.value_or(false)) {
      faults_.Add(path + ".emulate",
                  "not yet built (it belongs to mxfp8 and nvfp4), want false");
    }
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
    Policies(prefix, spec);
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
};

}  // namespace

void CheckSpec(const RecipeSpec& spec, Faults& faults) {
  Checker(faults).Check(spec);
}

}  // namespace scalekeeper
