// RecipeSpec: a recipe as written, before checks: the way to build one in code,
// and what recipe text is parsed into.
//
// Plain values that mirror proto/recipe.proto field by field; a field that is
// not set has the default documented there. Nothing here is checked:
// Recipe::Create does that and names every fault at once.
//
// Threads: plain values. Outcome: none of its own.
//
// Example:
//   RecipeSpec spec;
//   spec.defaults.emplace().all = PolicySpec::Delayed();
//   RuleSpec& head = spec.rules.emplace_back();
//   head.module = "head";
//   head.all = PolicySpec::HighPrecision();
//   SK_ASSIGN_OR_RETURN(Recipe recipe, Recipe::Create(spec));
#ifndef SCALEKEEPER_RECIPE_SPEC_H_
#define SCALEKEEPER_RECIPE_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "recipe/parameters.h"
#include "recipe/policy.h"

namespace scalekeeper {

struct HighPrecisionSpec {
  std::optional<DType> dtype;  // kBF16, kF16 or kF32
};

struct DelayedSpec {
  std::optional<int64_t> margin;            // 0..32
  std::optional<int64_t> amax_history_len;  // 1..65536
  std::optional<AmaxComputeAlgo> amax_compute_algo;
  std::optional<NonFiniteAmax> non_finite_amax;
  std::optional<FirstStep> first_step;
};

struct CurrentSpec {
  std::optional<bool> power_2_scale;
  std::optional<double> amax_epsilon;     // finite, >= 0
  std::optional<std::string> amax_group;  // not empty
};

struct RowwiseSpec : CurrentSpec {};

struct BlockSpec {
  std::optional<BlockShape> block_shape;
  std::optional<bool> power_2_scale;
  std::optional<double> amax_epsilon;  // finite, >= 0
};

struct Mxfp8Spec {
  std::optional<ScaleRounding> scale_rounding;
  std::optional<bool> two_dimensional;
};

struct Nvfp4Spec {
  std::optional<bool> two_dimensional, stochastic_rounding, random_hadamard,
      four_over_six;
  std::optional<int64_t> seed;
  std::optional<std::string> amax_group;  // not empty
};

struct CustomSpec {
  std::optional<std::string> factory;  // required, not empty
  std::optional<Parameters> parameters;
};

// The alternatives after std::monostate are in the order of Scaling.
using ScalingSpec =
    std::variant<std::monostate, HighPrecisionSpec, DelayedSpec, CurrentSpec,
                 RowwiseSpec, BlockSpec, Mxfp8Spec, Nvfp4Spec, CustomSpec>;

struct PolicySpec {
  std::optional<Format> format;
  ScalingSpec scaling;  // std::monostate: none named, which is an error

  static PolicySpec HighPrecision(HighPrecisionSpec options = {}) {
    return {std::nullopt, options};
  }
  static PolicySpec Delayed(DelayedSpec options = {}) {
    return {std::nullopt, options};
  }
  static PolicySpec Current(CurrentSpec options = {}) {
    return {std::nullopt, std::move(options)};
  }
  static PolicySpec Rowwise(RowwiseSpec options = {}) {
    return {std::nullopt, std::move(options)};
  }
  static PolicySpec Block(BlockSpec options = {}) {
    return {std::nullopt, options};
  }
  static PolicySpec Mxfp8(Mxfp8Spec options = {}) {
    return {std::nullopt, options};
  }
  static PolicySpec Nvfp4(Nvfp4Spec options = {}) {
    return {std::nullopt, std::move(options)};
  }
  static PolicySpec Custom(CustomSpec options) {
    return {std::nullopt, std::move(options)};
  }
};

// `all` stands for the roles that are not set beside it.
struct RolePoliciesSpec {
  std::optional<PolicySpec> input, weight, grad, all;
};

struct GemmSpec {
  std::optional<bool> fast_accum, high_precision, emulate;
};

struct MatmulSpec {
  std::optional<GemmSpec> fprop, dgrad, wgrad;
};

struct AmaxReductionSpec {
  std::optional<bool> enabled;
  std::optional<std::string> group;
};

struct UpdateSpec {
  std::optional<int64_t> interval, staleness;
};

struct LayersSpec {
  std::optional<std::string> pattern;  // RE2, exactly one capturing group
  std::optional<int64_t> first, last;  // layers
  std::optional<double> last_percent;  // 0..100
};

// What a rule or a phase may set.
struct ItemsSpec : RolePoliciesSpec {
  std::optional<MatmulSpec> matmul;
  std::optional<AmaxReductionSpec> amax_reduction;
};

struct RuleSpec : ItemsSpec {
  std::optional<std::string> module;  // RE2 on the whole name; or:
  std::optional<LayersSpec> layers;
  std::optional<bool> optional;
};

struct PhaseSpec : ItemsSpec {
  std::optional<int64_t> from_step;
  std::vector<RuleSpec> rules;
};

struct RecipeSpec {
  std::optional<std::string> name, description;
  std::optional<int64_t> schema_version;
  std::optional<RolePoliciesSpec> defaults;
  std::vector<RuleSpec> rules;
  std::optional<AmaxReductionSpec> amax_reduction;
  std::optional<MatmulSpec> matmul;
  std::vector<PhaseSpec> phases;
  std::optional<UpdateSpec> update;
};

// Equal as written: unset and explicitly default are different.
bool operator==(const RecipeSpec& a, const RecipeSpec& b);
inline bool operator!=(const RecipeSpec& a, const RecipeSpec& b) {
  return !(a == b);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_SPEC_H_
