#include "recipe/normal_form.h"

#include <set>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace scalekeeper {
namespace {

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
  out.current.amax_group =
      Pick(own.amax_group, base ? &base->amax_group : nullptr,
           out.current.amax_group);
}

void Fill(const RowwiseSpec& own, const RowwiseSpec* base, Policy& out) {
  Fill(static_cast<const CurrentSpec&>(own), base, out);
  out.scaling = Scaling::kRowwise;
}

void Fill(const BlockSpec& own, const BlockSpec* base, Policy& out) {
  out.scaling = Scaling::kBlock;
  BlockOptions& b = out.block;
  b.block_shape =
      Pick(own.block_shape, base ? &base->block_shape : nullptr, b.block_shape);
  b.power_2_scale =
      Pick(own.power_2_scale, base ? &base->power_2_scale : nullptr,
           b.power_2_scale);
  b.amax_epsilon = Pick(own.amax_epsilon, base ? &base->amax_epsilon : nullptr,
                        b.amax_epsilon);
}

void Fill(const Mxfp8Spec& own, const Mxfp8Spec* base, Policy& out) {
  out.scaling = Scaling::kMxfp8;
  Mxfp8Options& m = out.mxfp8;
  m.scale_rounding =
      Pick(own.scale_rounding, base ? &base->scale_rounding : nullptr,
           m.scale_rounding);
  m.two_dimensional =
      Pick(own.two_dimensional, base ? &base->two_dimensional : nullptr,
           m.two_dimensional);
}

void Fill(const Nvfp4Spec& own, const Nvfp4Spec* base, Policy& out) {
  out.scaling = Scaling::kNvfp4;
  Nvfp4Options& n = out.nvfp4;
  n.two_dimensional =
      Pick(own.two_dimensional, base ? &base->two_dimensional : nullptr,
           n.two_dimensional);
  n.stochastic_rounding =
      Pick(own.stochastic_rounding, base ? &base->stochastic_rounding : nullptr,
           n.stochastic_rounding);
  n.random_hadamard =
      Pick(own.random_hadamard, base ? &base->random_hadamard : nullptr,
           n.random_hadamard);
  n.four_over_six =
      Pick(own.four_over_six, base ? &base->four_over_six : nullptr,
           n.four_over_six);
  n.seed = Pick(own.seed, base ? &base->seed : nullptr, n.seed);
  n.amax_group =
      Pick(own.amax_group, base ? &base->amax_group : nullptr, n.amax_group);
}

// Parameters are meant for one factory: another one does not inherit them.
void Fill(const CustomSpec& own, const CustomSpec* base, Policy& out) {
  out.scaling = Scaling::kCustom;
  out.custom.factory =
      Pick(own.factory, base ? &base->factory : nullptr, out.custom.factory);
  if (base != nullptr && base->factory != out.custom.factory) base = nullptr;
  out.custom.parameters = CanonicalJson(
      Pick(own.parameters, base ? &base->parameters : nullptr, Parameters()));
}

}  // namespace

std::optional<Policy> CompletePolicy(const PolicySpec& own,
                                     const RolePoliciesSpec* defaults,
                                     Role role) {
  if (std::holds_alternative<std::monostate>(own.scaling)) return std::nullopt;
  const PolicySpec* base =
      defaults == nullptr ? nullptr : PolicyFor(*defaults, role);
  const bool inherits =
      base != nullptr && base->scaling.index() == own.scaling.index();
  Policy policy;
  policy.block.block_shape = DefaultBlockShape(role);
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

namespace {

void FillPolicies(const RolePoliciesSpec& own,
                  const std::optional<RolePoliciesSpec>& defaults, Items& out) {
  for (Role role : kRoles) {
    if (const PolicySpec* policy = PolicyFor(own, role)) {
      out.policies[static_cast<size_t>(role)] =
          CompletePolicy(*policy, defaults ? &*defaults : nullptr, role);
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
  if (spec.update) {
    recipe.update.interval =
        spec.update->interval.value_or(recipe.update.interval);
    recipe.update.staleness =
        spec.update->staleness.value_or(recipe.update.staleness);
  }
  return recipe;
}

namespace {

// Calls visit(items) for every message that sets any.
template <typename F>
void ForEachItems(const NormalRecipe& recipe, const F& visit) {
  visit(recipe.defaults);
  for (const NormalRule& rule : recipe.rules) visit(rule.items);
  for (const NormalPhase& phase : recipe.phases) {
    visit(phase.items);
    for (const NormalRule& rule : phase.rules) visit(rule.items);
  }
}

const std::string& AmaxGroup(const Policy& policy) {
  return policy.scaling == Scaling::kNvfp4 ? policy.nvfp4.amax_group
                                           : policy.current.amax_group;
}

}  // namespace

std::vector<std::string> GroupNames(const NormalRecipe& recipe) {
  std::set<std::string> names;
  bool any_delayed = false;
  ForEachItems(recipe, [&](const Items& items) {
    for (const std::optional<Policy>& policy : items.policies) {
      if (!policy) continue;
      any_delayed |= policy->scaling == Scaling::kDelayed;
      if (!AmaxGroup(*policy).empty()) names.insert(AmaxGroup(*policy));
    }
  });
  if (any_delayed) {
    ForEachItems(recipe, [&](const Items& items) {
      if (items.amax_reduction && items.amax_reduction->enabled) {
        names.insert(items.amax_reduction->group);
      }
    });
  }
  return {names.begin(), names.end()};
}

Format DefaultFormat(Scaling scaling, Role role) {
  if (scaling == Scaling::kNvfp4) return Format::kE2M1;
  if (scaling == Scaling::kBlock || scaling == Scaling::kMxfp8) {
    return Format::kE4M3;
  }
  return role == Role::kGrad ? Format::kE5M2 : Format::kE4M3;
}

BlockShape DefaultBlockShape(Role role) {
  return role == Role::kWeight ? BlockShape::k128x128 : BlockShape::k1x128;
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

namespace {

bool IsE5M2(const Policy& policy) {
  return policy.scaling != Scaling::kHighPrecision &&
         policy.format == Format::kE5M2;
}

bool IsTransformed(const Policy& policy) {
  return policy.scaling == Scaling::kNvfp4 && policy.nvfp4.random_hadamard;
}

}  // namespace

std::optional<OperandConflict> FindConflict(Gemm gemm, const Policy& a,
                                            const Policy& b) {
  const auto [role_a, role_b] = Operands(gemm);
  if (IsE5M2(a) && IsE5M2(b)) {
    return OperandConflict{
        role_a,
        role_b,
        "format",
        "E5M2",
        "is E5M2 too",
        absl::StrCat("at most one E5M2 operand in ", Name(gemm))};
  }
  if (gemm == Gemm::kWgrad && IsTransformed(a) != IsTransformed(b)) {
    const bool at_a = IsTransformed(a);
    const Policy& other = at_a ? b : a;
    return OperandConflict{
        at_a ? role_a : role_b,
        at_a ? role_b : role_a,
        "nvfp4.random_hadamard",
        "true",
        other.scaling == Scaling::kNvfp4
            ? "has false"
            : absl::StrCat("is ", Name(other.scaling)),
        absl::StrCat("it for both operands of ", Name(gemm), " or for none")};
  }
  return std::nullopt;
}

void AddOperandFault(const OperandConflict& conflict, const Giver& at,
                     const Giver& other, absl::string_view whom,
                     Faults& faults) {
  faults.Add(
      absl::StrCat(*at.path, ".", at.by_all ? "all" : Name(conflict.at), ".",
                   conflict.field),
      absl::StrCat("got ", conflict.got, " for ", Name(conflict.at), whom,
                   " while ", Name(conflict.other), " ", conflict.other_says,
                   " (", *other.origin, "), want ", conflict.want));
}

}  // namespace scalekeeper
