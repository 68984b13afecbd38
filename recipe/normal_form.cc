#include "recipe/normal_form.h"

#include <type_traits>

#include "absl/strings/str_cat.h"

namespace scalekeeper {
namespace {

// The field's own value, else the inherited one, else the default.
template <typename T, typename D>
D Pick(const std::optional<T>& own, const std::optional<T>* inherited,
       D otherwise) {
  if (own) return static_cast<D>(*own);
  if (inherited != nullptr && *inherited) return static_cast<D>(**inherited);
  return otherwise;
}

// `base` is the same scaling in the role's default policy, or null.
void Fill(const HighPrecisionSpec& own, const HighPrecisionSpec* base,
          Policy& out) {
  out.scaling = Scaling::kHighPrecision;
  out.high_precision_dtype =
      Pick(own.dtype, base ? &base->dtype : nullptr, out.high_precision_dtype);
}

void Fill(const DelayedSpec& own, const DelayedSpec* base, Policy& out) {
  out.scaling = Scaling::kDelayed;
  DelayedOptions& d = out.delayed;
  d.margin = Pick(own.margin, base ? &base->margin : nullptr, d.margin);
  d.amax_history_len =
      Pick(own.amax_history_len, base ? &base->amax_history_len : nullptr,
           d.amax_history_len);
  d.amax_compute_algo =
      Pick(own.amax_compute_algo, base ? &base->amax_compute_algo : nullptr,
           d.amax_compute_algo);
  d.non_finite_amax =
      Pick(own.non_finite_amax, base ? &base->non_finite_amax : nullptr,
           d.non_finite_amax);
  d.first_step =
      Pick(own.first_step, base ? &base->first_step : nullptr, d.first_step);
}

void Fill(const CurrentSpec& own, const CurrentSpec* base, Policy& out) {
  out.scaling = Scaling::kCurrent;
  out.current.power_2_scale =
      Pick(own.power_2_scale, base ? &base->power_2_scale : nullptr,
           out.current.power_2_scale);
  out.current.amax_epsilon =
      Pick(own.amax_epsilon, base ? &base->amax_epsilon : nullptr,
           out.current.amax_epsilon);
}

void Fill(const NotBuiltSpec& own, const NotBuiltSpec*, Policy& out) {
  out.scaling = own.scaling;
}

std::optional<Policy> Complete(const PolicySpec& own, const PolicySpec* base,
                               Role role) {
  if (std::holds_alternative<std::monostate>(own.scaling)) return std::nullopt;
  const bool inherits =
      base != nullptr && base->scaling.index() == own.scaling.index();
  Policy policy;
  std::visit(
      [&](const auto& scaling) {
        using S = std::decay_t<decltype(scaling)>;
        if constexpr (!std::is_same_v<S, std::monostate>) {
          Fill(scaling, inherits ? &std::get<S>(base->scaling) : nullptr,
               policy);
        }
      },
      own.scaling);
  if (policy.scaling != Scaling::kHighPrecision) {
    policy.format = Pick(own.format, inherits ? &base->format : nullptr,
                         DefaultFormat(policy.scaling, role));
  }
  return policy;
}

const std::optional<PolicySpec>& Named(const RolePoliciesSpec& spec,
                                       Role role) {
  switch (role) {
    case Role::kInput:
      return spec.input;
    case Role::kWeight:
      return spec.weight;
    case Role::kGrad:
      break;
  }
  return spec.grad;
}

// The policy that `spec` says for the role, or null.
const PolicySpec* PolicyFor(const RolePoliciesSpec& spec, Role role) {
  const std::optional<PolicySpec>& named = Named(spec, role);
  if (named) return &*named;
  return spec.all ? &*spec.all : nullptr;
}

void FillPolicies(const RolePoliciesSpec& own,
                  const std::optional<RolePoliciesSpec>& defaults, Items& out) {
  for (Role role : kRoles) {
    if (const PolicySpec* policy = PolicyFor(own, role)) {
      out.policies[static_cast<size_t>(role)] = Complete(
          *policy, defaults ? PolicyFor(*defaults, role) : nullptr, role);
      out.said_by_all[static_cast<size_t>(role)] = !Named(own, role);
    }
  }
}

void FillGemms(const std::optional<MatmulSpec>& matmul, Items& out) {
  if (!matmul) return;
  for (Gemm gemm : kGemms) {
    const std::optional<GemmSpec>& spec = gemm == Gemm::kFprop ? matmul->fprop
                                          : gemm == Gemm::kDgrad
                                              ? matmul->dgrad
                                              : matmul->wgrad;
    if (!spec) continue;
    GemmPolicy policy = DefaultGemmPolicy(gemm);
    policy.high_precision = spec->high_precision.value_or(false);
    policy.emulate = spec->emulate.value_or(false);
    policy.fast_accum =
        !policy.high_precision && spec->fast_accum.value_or(policy.fast_accum);
    out.gemms[static_cast<size_t>(gemm)] = policy;
  }
}

void FillAmaxReduction(const std::optional<AmaxReductionSpec>& spec,
                       Items& out) {
  if (!spec) return;
  AmaxReductionPolicy policy;
  policy.enabled = spec->enabled.value_or(true);
  policy.group = policy.enabled ? spec->group.value_or(policy.group) : "";
  out.amax_reduction = policy;
}

Items ItemsOf(const ItemsSpec& spec,
              const std::optional<RolePoliciesSpec>& defaults) {
  Items items;
  FillPolicies(spec, defaults, items);
  FillGemms(spec.matmul, items);
  FillAmaxReduction(spec.amax_reduction, items);
  return items;
}

std::vector<NormalRule> RulesOf(const std::vector<RuleSpec>& specs,
                                absl::string_view prefix,
                                const RecipeSpec& recipe,
                                const SourceMap& source) {
  std::vector<NormalRule> rules;
  for (size_t i = 0; i < specs.size(); ++i) {
    const RuleSpec& spec = specs[i];
    NormalRule& rule = rules.emplace_back();
    rule.path = absl::StrCat(prefix, "rule[", i, "]");
    const std::string place = source.Place(rule.path);
    rule.origin =
        place.empty() ? rule.path : absl::StrCat(rule.path, " (", place, ")");
    if (spec.layers) {
      rule.selector.by_layer = true;
      rule.selector.pattern = spec.layers->pattern.value_or("");
      rule.selector.first = spec.layers->first.value_or(0);
      rule.selector.last = spec.layers->last.value_or(0);
      rule.selector.last_percent = spec.layers->last_percent.value_or(0);
    } else {
      rule.selector.pattern = spec.module.value_or("");
    }
    rule.items = ItemsOf(spec, recipe.defaults);
    rule.optional = spec.optional.value_or(false);
  }
  return rules;
}

}  // namespace

uint32_t ItemBits(const Items& items) {
  uint32_t bits = 0;
  for (size_t i = 0; i < 3; ++i) {
    bits |= static_cast<uint32_t>(items.policies[i].has_value()) << i;
    bits |= static_cast<uint32_t>(items.gemms[i].has_value()) << (3 + i);
  }
  return bits | static_cast<uint32_t>(items.amax_reduction.has_value()) << 6;
}

std::string SelectorKey(const Selector& s) {
  if (!s.by_layer) return absl::StrCat("module ", s.pattern);
  return absl::StrCat("layers ", s.first, " ", s.last, " ", s.last_percent, " ",
                      s.pattern);
}

bool SelectsAll(const Selector& selector) {
  return !selector.by_layer && selector.pattern == ".*";
}

NormalRecipe Normalize(const RecipeSpec& spec, const SourceMap& source) {
  NormalRecipe recipe;
  if (spec.defaults) {
    FillPolicies(*spec.defaults, std::nullopt, recipe.set_by_recipe);
  }
  FillGemms(spec.matmul, recipe.set_by_recipe);
  FillAmaxReduction(spec.amax_reduction, recipe.set_by_recipe);
  recipe.defaults = recipe.set_by_recipe;
  for (Gemm gemm : kGemms) {
    auto& policy = recipe.defaults.gemms[static_cast<size_t>(gemm)];
    if (!policy) policy = DefaultGemmPolicy(gemm);
  }
  if (!recipe.defaults.amax_reduction) {
    recipe.defaults.amax_reduction = AmaxReductionPolicy();
  }
  recipe.rules = RulesOf(spec.rules, "", spec, source);
  for (size_t i = 0; i < spec.phases.size(); ++i) {
    const PhaseSpec& phase_spec = spec.phases[i];
    NormalPhase& phase = recipe.phases.emplace_back();
    phase.path = absl::StrCat("phase[", i, "]");
    phase.from_step = phase_spec.from_step.value_or(0);
    phase.items = ItemsOf(phase_spec, spec.defaults);
    phase.rules = RulesOf(phase_spec.rules, phase.path + ".", spec, source);
  }
  return recipe;
}

Format DefaultFormat(Scaling scaling, Role role) {
  if (scaling == Scaling::kNvfp4) return Format::kE2M1;
  if (scaling == Scaling::kBlock || scaling == Scaling::kMxfp8) {
    return Format::kE4M3;
  }
  return role == Role::kGrad ? Format::kE5M2 : Format::kE4M3;
}

GemmPolicy DefaultGemmPolicy(Gemm gemm) {
  GemmPolicy policy;
  policy.fast_accum = gemm == Gemm::kFprop;
  return policy;
}

std::array<Role, 2> Operands(Gemm gemm) {
  switch (gemm) {
    case Gemm::kFprop:
      return {Role::kInput, Role::kWeight};
    case Gemm::kDgrad:
      return {Role::kWeight, Role::kGrad};
    case Gemm::kWgrad:
      break;
  }
  return {Role::kInput, Role::kGrad};
}

bool IsE5M2(const Policy& policy) {
  return policy.scaling != Scaling::kHighPrecision &&
         policy.format == Format::kE5M2;
}

void AddOperandFault(Gemm gemm, const Giver& a, const Giver& b,
                     absl::string_view whom, Faults& faults) {
  const auto [role, other] = Operands(gemm);
  faults.Add(
      absl::StrCat(*a.path, ".", a.by_all ? "all" : Name(role), ".format"),
      absl::StrCat("got E5M2 for ", Name(role), whom, " while ", Name(other),
                   " is E5M2 too (", *b.origin,
                   "), want at most one E5M2 operand in ", Name(gemm)));
}

}  // namespace scalekeeper
