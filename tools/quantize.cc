#include "tools/quantize.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "quantizer/quantizer.h"
#include "re2/re2.h"
#include "base/json.h"

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

// A recipe in which `role` has exactly this policy and nothing else is scaled.
absl::StatusOr<Recipe> RecipeOf(const Policy& policy, Role role) {
  PolicySpec spec;
  switch (policy.scaling) {
    case Scaling::kHighPrecision:
      spec = PolicySpec::HighPrecision({policy.high_precision_dtype});
      break;
    case Scaling::kDelayed: {
      DelayedSpec delayed;
      delayed.margin = policy.delayed.margin;
      delayed.amax_history_len = policy.delayed.amax_history_len;
      delayed.amax_compute_algo = policy.delayed.amax_compute_algo;
      delayed.non_finite_amax = policy.delayed.non_finite_amax;
      delayed.first_step = policy.delayed.first_step;
      spec = PolicySpec::Delayed(delayed);
      spec.format = policy.format;
      break;
    }
    case Scaling::kCurrent: {
      CurrentSpec current;
      current.power_2_scale = policy.current.power_2_scale;
      current.amax_epsilon = static_cast<double>(policy.current.amax_epsilon);
      spec = PolicySpec::Current(current);
      spec.format = policy.format;
      break;
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat("scaling ", Name(policy.scaling), " is not yet built"));
  }
  RecipeSpec recipe;
  RolePoliciesSpec& defaults = recipe.defaults.emplace();
  (role == Role::kInput    ? defaults.input
   : role == Role::kWeight ? defaults.weight
                           : defaults.grad) = std::move(spec);
  defaults.all = PolicySpec::HighPrecision();
  return Recipe::Create(recipe);
}

std::string Bytes(const Buffer& buffer) {
  return std::string(buffer.as<char>(), buffer.size());
}

std::string InfoJson(const Recipe& recipe, const QuantizeJob& job,
                     const Policy& policy, const Statistics& statistics) {
  const bool scaled = policy.scaling != Scaling::kHighPrecision;
  const std::string scale_shape = scaled ? "[1]" : "[]";
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
  add("scale_shape", scale_shape);
  add("shape_t", absl::StrCat("[", job.cols, ", ", job.rows, "]"));
  add("scale_shape_t", scale_shape);
  add("amax", NumberOrName(statistics.amax()));
  add("scale", scaled ? NumberOrName(statistics.scale) : "null");
  add("scale_inv", scaled ? NumberOrName(statistics.scale_inv) : "null");
  add("underflow", NumberOrName(statistics.underflow_fraction()));
  add("saturation", NumberOrName(statistics.saturation_fraction()));
  add("sqnr_db", NumberOrName(statistics.sqnr_db()));
  add("non_finite", absl::StrCat(statistics.non_finite));
  return text + "\n}\n";
}

std::string Summary(const QuantizeJob& job, const Policy& policy,
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
  return absl::StrFormat(
      "%s%s %s, scale %.9g, amax %.9g, underflow %.2f%%, saturation %.2f%%, "
      "SQNR %.2f dB, %d non-finite",
      what, Name(policy.scaling), Name(policy.format), statistics.scale,
      statistics.amax(), 100 * statistics.underflow_fraction(),
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
      {"info.json", InfoJson(recipe, job, policy, statistics)},
  };
  result.summary = Summary(job, policy, statistics);
  return result;
}

}  // namespace scalekeeper
