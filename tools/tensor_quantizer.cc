#include "tools/tensor_quantizer.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "quantizer/linear_usages.h"
#include "re2/re2.h"
#include "recipe/resolved_modules.h"

namespace scalekeeper {
namespace {

bool HasLayerRuleFor(const std::vector<RuleSpec>& rules,
                     const std::string& module) {
  for (const RuleSpec& rule : rules) {
    if (rule.layers && rule.layers->pattern &&
        RE2::FullMatch(module, *rule.layers->pattern)) {
      return true;
    }
  }
  return false;
}

// Which layers are the first and the last ones, one module's name cannot tell.
absl::Status CheckLayersAreKnown(const Recipe& recipe,
                                 const std::string& module) {
  bool by_layer = HasLayerRuleFor(recipe.spec().rules, module);
  for (const PhaseSpec& phase : recipe.spec().phases) {
    by_layer = by_layer || HasLayerRuleFor(phase.rules, module);
  }
  if (!by_layer) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("module ", Quoted(module),
                   " is chosen by its layer number: want "
                   "--modules=NAMES.txt, which says what layers there are"));
}

absl::StatusOr<ResolvedModule> ModuleOf(const Recipe& recipe,
                                        const TensorJob& job) {
  const int phase = recipe.ActivePhase(job.step);
  if (job.modules.empty()) {
    SK_RETURN_IF_ERROR(CheckLayersAreKnown(recipe, job.module));
    SK_ASSIGN_OR_RETURN(const ResolvedModules resolved,
                        recipe.ResolveSome({job.module}));
    return resolved.at(phase, 0);
  }
  SK_ASSIGN_OR_RETURN(const ResolvedModules resolved,
                      recipe.Resolve(job.modules));
  for (size_t i = 0; i < job.modules.size(); ++i) {
    if (job.modules[i] == job.module) {
      return resolved.at(phase, i);
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "module ", Quoted(job.module), " is not among the ", job.modules.size(),
      " names of --modules", DidYouMean(job.module, job.modules)));
}

// The policy as a recipe says it. Groups are left out: there is one process.
absl::StatusOr<PolicySpec> SpecOf(const Policy& policy) {
  switch (policy.scaling) {
    case Scaling::kHighPrecision:
      return PolicySpec::HighPrecision({policy.high_precision_dtype});
    case Scaling::kDelayed:
      return PolicySpec::Delayed(
          {policy.delayed.margin, policy.delayed.amax_history_len,
           policy.delayed.amax_compute_algo, policy.delayed.non_finite_amax,
           policy.delayed.first_step});
    case Scaling::kCurrent:
    case Scaling::kRowwise: {
      const CurrentSpec current = {
          policy.current.power_2_scale,
          static_cast<double>(policy.current.amax_epsilon), std::nullopt};
      return policy.scaling == Scaling::kCurrent
                 ? PolicySpec::Current(current)
                 : PolicySpec::Rowwise({current});
    }
    case Scaling::kBlock:
      return PolicySpec::Block(
          {policy.block.block_shape, policy.block.power_2_scale,
           static_cast<double>(policy.block.amax_epsilon)});
    case Scaling::kMxfp8:
      return PolicySpec::Mxfp8(
          {policy.mxfp8.scale_rounding, policy.mxfp8.two_dimensional});
    case Scaling::kNvfp4: {
      Nvfp4Spec nvfp4;
      nvfp4.two_dimensional = policy.nvfp4.two_dimensional;
      nvfp4.stochastic_rounding = policy.nvfp4.stochastic_rounding;
      nvfp4.random_hadamard = policy.nvfp4.random_hadamard;
      nvfp4.four_over_six = policy.nvfp4.four_over_six;
      if (policy.nvfp4.stochastic_rounding) nvfp4.seed = policy.nvfp4.seed;
      return PolicySpec::Nvfp4(nvfp4);
    }
    case Scaling::kCustom:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "scaling ", Name(policy.scaling), ": its quantizer ",
      Quoted(policy.custom.factory), " is the program's, not this command's"));
}

// A recipe in which `role` has exactly this module's policy. Nothing else is
// scaled, but for the partner of a transform, which must have it too.
absl::StatusOr<Recipe> RecipeOf(const ResolvedModule& module, Role role) {
  const Policy& policy = module.policy(role);
  SK_ASSIGN_OR_RETURN(PolicySpec spec, SpecOf(policy));
  if (policy.scaling != Scaling::kHighPrecision) spec.format = policy.format;
  const bool transforms =
      policy.scaling == Scaling::kNvfp4 && policy.nvfp4.random_hadamard;
  RecipeSpec recipe;
  RolePoliciesSpec& defaults = recipe.defaults.emplace();
  if (role == Role::kInput || transforms) defaults.input = spec;
  if (role == Role::kWeight) defaults.weight = spec;
  if (role == Role::kGrad || transforms) defaults.grad = spec;
  defaults.all = PolicySpec::HighPrecision();
  MatmulSpec& matmul = recipe.matmul.emplace();
  for (auto [gemm, spec] : {std::pair(Gemm::kFprop, &matmul.fprop),
                            std::pair(Gemm::kDgrad, &matmul.dgrad),
                            std::pair(Gemm::kWgrad, &matmul.wgrad)}) {
    if (module.gemm(gemm).high_precision) spec->emplace().high_precision = true;
  }
  return Recipe::Create(recipe);
}

}  // namespace

absl::StatusOr<TensorQuantizer> MakeTensorQuantizer(const Recipe& recipe,
                                                    const TensorJob& job) {
  SK_ASSIGN_OR_RETURN(const ResolvedModule module, ModuleOf(recipe, job));
  SK_ASSIGN_OR_RETURN(Recipe own, RecipeOf(module, job.role));
  TensorQuantizer result;
  result.policy = module.policy(job.role);
  SK_ASSIGN_OR_RETURN(result.state, RecipeState::Create(std::move(own), {}));
  SK_RETURN_IF_ERROR(result.state->SetStep(job.step));
  SK_ASSIGN_OR_RETURN(const ModuleSlots slots,
                      result.state->AddModule(job.module));
  SK_RETURN_IF_ERROR(result.state->Freeze());
  result.usages = GetLinearUsages(*result.state, job.module).of(job.role);
  SK_ASSIGN_OR_RETURN(result.quantizer,
                      MakeQuantizer(result.state.get(), slots.slot(job.role)));
  return result;
}

}  // namespace scalekeeper
