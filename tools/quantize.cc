#include "tools/quantize.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "quantizer/quantizer.h"
#include "quantizer/scale_grid.h"
#include "re2/re2.h"

namespace scalekeeper {
namespace {

// A JSON number, or a string for what JSON has none for: "nan", "inf", "-inf".
std::string NumberOrName(double value) {
  if (std::isfinite(value)) return JsonNumber(value);
  return JsonString(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

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

absl::StatusOr<Policy> PolicyOf(const Recipe& recipe, const QuantizeJob& job) {
  const int phase = recipe.ActivePhase(job.step);
  if (job.modules.empty()) {
    SK_RETURN_IF_ERROR(CheckLayersAreKnown(recipe, job.module));
    SK_ASSIGN_OR_RETURN(const ResolvedModules resolved,
                        recipe.ResolveSome({job.module}));
    return resolved.at(phase, 0).policy(job.role);
  }
  SK_ASSIGN_OR_RETURN(const ResolvedModules resolved,
                      recipe.Resolve(job.modules));
  for (size_t i = 0; i < job.modules.size(); ++i) {
    if (job.modules[i] == job.module) {
      return resolved.at(phase, i).policy(job.role);
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

// A recipe in which `role` has exactly this policy. Nothing else is scaled, but
// for the partner of a transform, which must have it too.
absl::StatusOr<Recipe> RecipeOf(const Policy& policy, Role role) {
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
  return Recipe::Create(recipe);
}

std::string Bytes(const Buffer& buffer) {
  return std::string(buffer.as<char>(), buffer.size());
}

// Whether there is one scale, or one beside those of the blocks.
bool HasTensorScale(Scaling scaling) {
  return scaling == Scaling::kDelayed || scaling == Scaling::kCurrent ||
         scaling == Scaling::kNvfp4;
}

// "[1]", "[1000, 3]"; "[]" where there is no scale.
std::string ScaleShape(const QuantizedTensor& tensor,
                       const QuantizedData& data) {
  switch (tensor.scaling) {
    case Scaling::kHighPrecision:
      return "[]";
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      return "[1]";
    default:
      return absl::StrCat("[", data.scales.rows, ", ", data.scales.cols, "]");
  }
}

std::string InfoJson(const Recipe& recipe, const QuantizeJob& job,
                     const Policy& policy, const QuantizedTensor& tensor,
                     const Statistics& statistics) {
  const bool scaled = policy.scaling != Scaling::kHighPrecision;
  const bool has_scale = scaled && HasTensorScale(policy.scaling);
  std::string text = "{\n";
  const auto add = [&text](absl::string_view name, absl::string_view value) {
    absl::StrAppend(&text, text.size() > 2 ? ",\n" : "", "  ", JsonString(name),
                    ": ", value);
  };
  add("module", JsonString(job.module));
  add("role", JsonString(Name(job.role)));
  add("step", absl::StrCat(job.step));
  add("recipe", JsonString(recipe.name()));
  add("fingerprint", JsonString(recipe.fingerprint()));
  add("policy", JsonString(Describe(policy)));
  add("scaling", JsonString(Name(policy.scaling)));
  add("format", JsonString(scaled ? Name(policy.format)
                                  : RecipeName(policy.high_precision_dtype)));
  add("shape", absl::StrCat("[", job.rows, ", ", job.cols, "]"));
  add("scale_shape", ScaleShape(tensor, *tensor.row_wise));
  add("shape_t", absl::StrCat("[", job.cols, ", ", job.rows, "]"));
  add("scale_shape_t", ScaleShape(tensor, *tensor.column_wise));
  add("scale_type",
      scaled ? JsonString(Name(ScaleTypeOf(policy.scaling))) : "null");
  add("amax", NumberOrName(statistics.amax()));
  add("scale", has_scale ? NumberOrName(statistics.scale) : "null");
  add("scale_inv", has_scale ? NumberOrName(statistics.scale_inv) : "null");
  add("underflow", NumberOrName(statistics.underflow_fraction()));
  add("saturation", NumberOrName(statistics.saturation_fraction()));
  add("sqnr_db", NumberOrName(statistics.sqnr_db()));
  add("non_finite", absl::StrCat(statistics.non_finite));
  return text + "\n}\n";
}

std::string Summary(const QuantizeJob& job, const Policy& policy,
                    const QuantizedTensor& tensor,
                    const Statistics& statistics) {
  const std::string what =
      absl::StrCat(job.module, "/", Name(job.role), ": ", job.rows, "x",
                   job.cols, " ", Name(job.dtype), " -> ");
  if (policy.scaling == Scaling::kHighPrecision) {
    return absl::StrCat(
        what, "high_precision: codes.bin holds ",
        Name(policy.high_precision_dtype),
        " values and there is no scale (scale_inv.bin is empty)");
  }
  const std::string scale =
      HasTensorScale(policy.scaling)
          ? absl::StrFormat("scale %.9g", statistics.scale)
          : absl::StrCat("scales ", ScaleShape(tensor, *tensor.row_wise));
  return absl::StrFormat(
      "%s%s %s, %s, amax %.9g, underflow %.2f%%, saturation %.2f%%, "
      "SQNR %.2f dB, %d non-finite",
      what, Name(policy.scaling), Name(policy.format), scale, statistics.amax(),
      100 * statistics.underflow_fraction(),
      100 * statistics.saturation_fraction(), statistics.sqnr_db(),
      statistics.non_finite);
}

}  // namespace

absl::StatusOr<QuantizedFiles> QuantizeValues(const Recipe& recipe,
                                              const QuantizeJob& job,
                                              absl::string_view values,
                                              absl::string_view source) {
  const size_t element = SizeOf(job.dtype);
  const size_t want =
      static_cast<size_t>(job.rows) * static_cast<size_t>(job.cols) * element;
  if (values.size() != want) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": got ", values.size(), " bytes, want ", want,
                     " for ", job.rows, "x", job.cols, " of ", Name(job.dtype),
                     " (", element, " bytes each)"));
  }
  SK_ASSIGN_OR_RETURN(const Policy policy, PolicyOf(recipe, job));
  SK_ASSIGN_OR_RETURN(Recipe own, RecipeOf(policy, job.role));
  SK_ASSIGN_OR_RETURN(const std::unique_ptr<RecipeState> state,
                      RecipeState::Create(std::move(own), {}));
  SK_RETURN_IF_ERROR(state->SetStep(job.step));
  SK_ASSIGN_OR_RETURN(const ModuleSlots slots, state->AddModule(job.module));
  SK_RETURN_IF_ERROR(state->Freeze());
  SK_ASSIGN_OR_RETURN(
      const std::unique_ptr<Quantizer> quantizer,
      MakeQuantizer(state.get(), slots.slot(job.role), Usages{true, true}));

  // An aligned copy.
  SK_ASSIGN_OR_RETURN(Buffer input,
                      Buffer::Allocate(HostAllocator(), values.size()));
  if (!values.empty()) std::memcpy(input.data(), values.data(), values.size());
  const ConstTensorView x =
      TensorView::Contiguous(input.data(), job.dtype, job.rows, job.cols);
  SK_ASSIGN_OR_RETURN(const Statistics statistics,
                      quantizer->Measure(x, Stream{}));
  SK_ASSIGN_OR_RETURN(const QuantizedTensor tensor,
                      quantizer->Quantize(x, Stream{}));

  QuantizedFiles result;
  result.files = {
      {"codes.bin", Bytes(tensor.row_wise->codes)},
      {"scale_inv.bin", Bytes(tensor.row_wise->scale_inv)},
      {"codes_t.bin", Bytes(tensor.column_wise->codes)},
      {"scale_inv_t.bin", Bytes(tensor.column_wise->scale_inv)},
  };
  const NamedContents tensor_scales[] = {
      {"tensor_scale_inv.bin", Bytes(tensor.row_wise->tensor_scale_inv)},
      {"tensor_scale_inv_t.bin", Bytes(tensor.column_wise->tensor_scale_inv)},
  };
  for (const NamedContents& file : tensor_scales) {
    if (policy.scaling == Scaling::kNvfp4) {
      result.files.push_back(file);
    } else {
      result.absent.push_back(file.first);
    }
  }
  result.files.push_back(
      {"info.json", InfoJson(recipe, job, policy, tensor, statistics)});
  result.summary = Summary(job, policy, tensor, statistics);
  return result;
}

}  // namespace scalekeeper
