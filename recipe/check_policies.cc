// Checks of policies. Most look at what a message says itself; contradictions
// are found in what a role gets from it, inheritance included.
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "recipe/check.h"
#include "recipe/field_limits.h"
#include "recipe/spec_fields.h"

namespace scalekeeper {
namespace {

// Of one policy of one message.
class PolicyChecker {
 public:
  // `roles`: those that the policy speaks for.
  PolicyChecker(std::string path, const PolicySpec& policy,
                std::vector<Role> roles, const RolePoliciesSpec* defaults,
                Faults& faults)
      : path_(std::move(path)),
        policy_(policy),
        roles_(std::move(roles)),
        defaults_(defaults),
        faults_(faults) {}

  void Run() {
    std::visit([this](const auto& scaling) { Check(scaling); },
               policy_.scaling);
  }

 private:
  void Add(absl::string_view field, absl::string_view message) {
    faults_.Add(absl::StrCat(path_, ".", field), message);
  }

  // `field` of the scaling that the policy names.
  void AddOption(absl::string_view field, absl::string_view message) {
    Add(absl::StrCat(Name(ScalingOf(policy_.scaling)), ".", field), message);
  }

  void Check(const std::monostate&) {
    faults_.Add(path_,
                "got no scaling, want one of high_precision, delayed, current, "
                "rowwise, block, mxfp8, nvfp4, custom");
  }

  void Check(const HighPrecisionSpec& scaling) {
    if (policy_.format) {
      Add("format", absl::StrCat("got ", Name(*policy_.format),
                                 " beside high_precision, where it has no "
                                 "effect, want no format"));
    }
    if (scaling.dtype == DType::kUint8) {
      AddOption("dtype", "got uint8, want BF16, FP16 or FP32");
    }
  }

  void Check(const DelayedSpec& scaling) {
    Fp8Format();
    Range("margin", scaling.margin);
    Range("amax_history_len", scaling.amax_history_len);
  }

  void Check(const CurrentSpec& scaling) {  // and RowwiseSpec
    Fp8Format();
    Epsilon(scaling.amax_epsilon);
    Group(scaling.amax_group);
  }

  void Check(const BlockSpec& scaling) {
    Fp8Format();
    Epsilon(scaling.amax_epsilon);
  }

  void Check(const Mxfp8Spec&) { Fp8Format(); }

  void Check(const Nvfp4Spec& scaling) {
    if (policy_.format && *policy_.format != Format::kE2M1) {
      Add("format", absl::StrCat("got ", Name(*policy_.format),
                                 " with nvfp4, want E2M1"));
    }
    Group(scaling.amax_group);
    bool rounds_at_random = false;
    for (Role role : roles_) {
      const Nvfp4Options options = Completed(role).nvfp4;
      rounds_at_random |= options.stochastic_rounding;
      Contradictions(scaling, options);
      if (options.random_hadamard && role == Role::kWeight) {
        AddOnce("random_hadamard",
                absl::StrCat("got true", From(scaling.random_hadamard),
                             " for weight, want it for input and grad only, "
                             "the operands of wgrad"));
      }
    }
    if (scaling.seed && !rounds_at_random && !roles_.empty()) {
      AddOption("seed",
                absl::StrCat("got ", *scaling.seed,
                             " without stochastic_rounding: true, where it has "
                             "no effect, want no seed"));
    }
  }

  void Check(const CustomSpec& scaling) {
    Fp8Format();
    for (Role role : roles_) {
      if (Completed(role).custom.factory.empty()) {
        AddOnce("factory",
                absl::StrCat("got ", scaling.factory ? "\"\"" : "nothing",
                             ", want the name of a registered "
                             "factory"));
      }
    }
    if (scaling.parameters) Object(*scaling.parameters, 1);
  }

  void Fp8Format() {
    if (policy_.format == Format::kE2M1) {
      Add("format",
          absl::StrCat("got E2M1 with ", Name(ScalingOf(policy_.scaling)),
                       ", want E4M3 or E5M2"));
    }
  }

  void Range(absl::string_view field, const std::optional<int64_t>& value) {
    const IntegerLimits limits = LimitsOf(field);
    if (!value || limits.Allows(*value)) return;
    AddRangeFault(
        absl::StrCat(path_, ".", Name(ScalingOf(policy_.scaling)), ".", field),
        *value, limits, faults_);
  }

  void Epsilon(const std::optional<double>& epsilon) {
    if (!epsilon) return;
    const double v = *epsilon;
    if (!(v >= 0 && v <= std::numeric_limits<float>::max())) {
      AddOption("amax_epsilon", absl::StrCat("got ", ShortestNumber(v),
                                             ", want a finite float32 >= 0"));
    } else if (v > 0 && static_cast<float>(v) == 0) {
      AddOption("amax_epsilon",
                absl::StrCat("got ", ShortestNumber(v),
                             ", which is 0 in float32, want 0 or at least "
                             "1.4e-45"));
    }
  }

  // "" takes back what `defaults` says; within them there is nothing to take.
  void Group(const std::optional<std::string>& group) {
    if (group && group->empty() && absl::StartsWith(path_, "defaults.")) {
      AddOption("amax_group",
                "got \"\", want a name (\"\" in a rule or phase takes it "
                "back)");
    }
  }

  // Pairs of options that mean nothing together.
  void Contradictions(const Nvfp4Spec& own, const Nvfp4Options& options) {
    const auto refuse =
        [&](const char* field, const std::optional<bool>& field_own,
            const char* other, const std::optional<bool>& other_own,
            const char* why) {
          AddOnce(field, absl::StrCat("got true", From(field_own), " beside ",
                                      other, ": true", From(other_own), " (",
                                      why, "), want one of them"));
        };
    if (options.random_hadamard && options.four_over_six) {
      refuse("random_hadamard", own.random_hadamard, "four_over_six",
             own.four_over_six, "its choice is made on the values themselves");
    }
    if (options.random_hadamard && options.two_dimensional) {
      refuse("random_hadamard", own.random_hadamard, "two_dimensional",
             own.two_dimensional,
             "whose column-wise copy is an exact transpose");
    }
    if (options.stochastic_rounding && options.four_over_six) {
      refuse("stochastic_rounding", own.stochastic_rounding, "four_over_six",
             own.four_over_six, "its choice needs rounding to nearest");
    }
  }

  void Object(const Parameters& parameters, int depth) {
    if (!Shallow(depth)) return;
    for (const auto& [name, value] : parameters) {
      ParameterText(name);
      Value(name, value, depth);
    }
  }

  void Value(const std::string& name, const ParameterValue& value, int depth) {
    if (const auto* number = std::get_if<double>(&value.value)) {
      if (!std::isfinite(*number)) {
        AddOnce("parameters",
                absl::StrCat("got ", ShortestNumber(*number), " for ",
                             Quoted(name), ", want a finite number"));
      }
    } else if (const auto* text = std::get_if<std::string>(&value.value)) {
      ParameterText(*text);
    } else if (const auto* list = std::get_if<ParameterList>(&value.value)) {
      if (!Shallow(depth + 1)) return;
      for (const ParameterValue& v : *list) Value(name, v, depth + 1);
    } else if (const auto* object = std::get_if<Parameters>(&value.value)) {
      Object(*object, depth + 1);
    }
  }

  bool Shallow(int depth) {
    if (depth <= kMaxParameterDepth) return true;
    AddOnce("parameters",
            absl::StrCat("got objects and lists nested more than ",
                         kMaxParameterDepth, " deep, want fewer"));
    return false;
  }

  void ParameterText(absl::string_view text) {
    if (FirstInvalidUtf8(text) == text.size()) return;
    AddOnce("parameters", absl::StrCat("got ", Quoted(text), ", want UTF-8"));
  }

  Policy Completed(Role role) const {
    return CompletePolicy(policy_, defaults_, role).value_or(Policy());
  }

  // Where a value comes from that the policy itself does not say.
  static absl::string_view From(const std::optional<bool>& own) {
    return own ? "" : " (from defaults)";
  }

  // As AddOption, but once for all roles and parameters.
  void AddOnce(const std::string& field, const std::string& message) {
    if (added_.emplace(field, message).second) AddOption(field, message);
  }

  const std::string path_;
  const PolicySpec& policy_;
  const std::vector<Role> roles_;
  const RolePoliciesSpec* const defaults_;
  Faults& faults_;
  std::set<std::pair<std::string, std::string>> added_;
};

}  // namespace

void CheckPolicies(const std::string& prefix, const RolePoliciesSpec& spec,
                   const RolePoliciesSpec* defaults, Faults& faults) {
  std::vector<Role> unnamed;
  const auto check = [&](Role role, const std::optional<PolicySpec>& policy) {
    if (policy) {
      PolicyChecker(absl::StrCat(prefix, Name(role)), *policy, {role}, defaults,
                    faults)
          .Run();
    } else {
      unnamed.push_back(role);
    }
  };
  check(Role::kInput, spec.input);
  check(Role::kWeight, spec.weight);
  check(Role::kGrad, spec.grad);
  if (spec.all) {
    PolicyChecker(absl::StrCat(prefix, "all"), *spec.all, unnamed, defaults,
                  faults)
        .Run();
  }
}

void AddRangeFault(const std::string& path, int64_t value,
                   const IntegerLimits& limits, Faults& faults) {
  faults.Add(path, absl::StrCat("got ", faults.AsWritten(path, value),
                                ", want ", limits.Want()));
}

}  // namespace scalekeeper
