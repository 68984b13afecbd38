// Random valid recipes, for property tests.
#ifndef SCALEKEEPER_TESTS_RECIPE_SPEC_GENERATOR_H_
#define SCALEKEEPER_TESTS_RECIPE_SPEC_GENERATOR_H_

#include <cstdint>
#include <random>
#include <string>

#include "recipe/spec.h"

namespace scalekeeper {

// The same seed gives the same recipes everywhere.
class SpecGenerator {
 public:
  explicit SpecGenerator(uint32_t seed) : random_(seed) {}

  RecipeSpec Next() {
    RecipeSpec spec;
    if (Chance()) spec.name = Text();
    if (Chance()) spec.description = Text();
    if (Chance()) spec.schema_version = 1;
    spec.defaults.emplace();
    FillPolicies(*spec.defaults);
    spec.defaults->all = Policy();
    spec.matmul = Matmul();
    spec.amax_reduction = AmaxReduction();
    spec.update = Update();
    for (int i = Below(4); i > 0; --i) spec.rules.push_back(Rule());
    int64_t step = Below(2);
    for (int i = Below(3); i > 0; --i) {
      PhaseSpec& phase = spec.phases.emplace_back();
      phase.from_step = step;
      step += 1 + Below(1000);
      FillItems(phase);
      for (int r = Below(3); r > 0; --r) phase.rules.push_back(Rule());
    }
    return spec;
  }

 private:
  int Below(int end) {
    return static_cast<int>(random_() % static_cast<uint32_t>(end));
  }
  bool Chance() { return Below(2) == 0; }

  // Unique, so that no rule hides another one.
  std::string Name() { return "m" + std::to_string(next_name_++); }

  std::string Text() {
    std::string text;
    for (int i = Below(12); i > 0; --i) {
      static const char* const kPieces[] = {
          "a", " ", "\"",   "\\",       "\n", "'", "\t", "#",
          "{", "}", "\x01", "\xc3\xa9", "7",  "f", "?"};
      text += kPieces[Below(15)];
    }
    return text;
  }

  // E4M3 only, so that no GEMM meets two E5M2 operands.
  PolicySpec Policy() {
    PolicySpec policy;
    switch (Below(8)) {
      case 0: {
        HighPrecisionSpec options;
        const DType dtypes[] = {DType::kBF16, DType::kF16, DType::kF32};
        if (Chance()) options.dtype = dtypes[Below(3)];
        policy.scaling = options;
        return policy;
      }
      case 1: {
        DelayedSpec options;
        if (Chance()) options.margin = Below(33);
        if (Chance()) options.amax_history_len = 1 + Below(65536);
        if (Chance()) options.amax_compute_algo = AmaxComputeAlgo::kMostRecent;
        if (Chance()) options.non_finite_amax = NonFiniteAmax::kBackOff;
        if (Chance()) options.first_step = FirstStep::kUnit;
        policy.scaling = options;
        break;
      }
      case 2: {
        CurrentSpec options;
        FillCurrent(options);
        policy.scaling = options;
        break;
      }
      case 3: {
        RowwiseSpec options;
        FillCurrent(options);
        policy.scaling = options;
        break;
      }
      case 4: {
        BlockSpec options;
        if (Chance()) options.block_shape = BlockShape::k128x128;
        if (Chance()) options.power_2_scale = Chance();
        if (Chance()) options.amax_epsilon = Below(1000) * 1e-7;
        policy.scaling = options;
        break;
      }
      case 5: {
        Mxfp8Spec options;
        if (Chance()) options.scale_rounding = ScaleRounding::kOcpFloor;
        if (Chance()) options.two_dimensional = Chance();
        policy.scaling = options;
        break;
      }
      case 6:
        policy.scaling = Nvfp4();
        if (Chance()) policy.format = Format::kE2M1;
        return policy;
      default: {
        CustomSpec options;
        options.factory = Name();
        if (Chance()) options.parameters = Object(3);
        policy.scaling = options;
        break;
      }
    }
    policy.format = Format::kE4M3;
    return policy;
  }

  void FillCurrent(CurrentSpec& options) {
    if (Chance()) options.power_2_scale = Chance();
    if (Chance()) options.amax_epsilon = Below(1000) * 1e-7;
    if (Chance()) options.amax_group = Name();
  }

  // Without random_hadamard, which speaks about pairs of roles; what would
  // contradict an inherited option is set.
  Nvfp4Spec Nvfp4() {
    Nvfp4Spec options;
    if (Chance()) options.two_dimensional = Chance();
    options.stochastic_rounding = Chance();
    options.four_over_six = !*options.stochastic_rounding && Chance();
    if (Chance()) options.random_hadamard = false;
    if (*options.stochastic_rounding && Chance())
      options.seed = Below(1000) - 500;
    if (Chance()) options.amax_group = Name();
    return options;
  }

  Parameters Object(int depth) {
    Parameters object;
    for (int i = Below(4); i > 0; --i) object[Text()] = Value(depth - 1);
    return object;
  }

  ParameterValue Value(int depth) {
    switch (Below(depth > 0 ? 6 : 4)) {
      case 0:
        return {nullptr};
      case 1:
        return {Chance()};
      case 2:
        return {(Below(2001) - 1000) / 8.0};
      case 3:
        return {Text()};
      case 4: {
        ParameterList list;
        for (int i = Below(3); i > 0; --i) list.push_back(Value(depth - 1));
        return {list};
      }
      default:
        return {Object(depth)};
    }
  }

  void FillPolicies(RolePoliciesSpec& spec) {
    if (Chance()) spec.input = Policy();
    if (Chance()) spec.weight = Policy();
    if (Chance()) spec.grad = Policy();
  }

  std::optional<MatmulSpec> Matmul() {
    MatmulSpec matmul;
    for (auto* gemm : {&matmul.fprop, &matmul.dgrad, &matmul.wgrad}) {
      if (Chance()) continue;
      gemm->emplace();
      if (Chance()) {
        (*gemm)->high_precision = true;
      } else {
        if (Chance()) (*gemm)->fast_accum = Chance();
        if (Chance()) (*gemm)->emulate = Chance();
      }
    }
    return Chance() ? std::nullopt : std::optional<MatmulSpec>(matmul);
  }

  std::optional<AmaxReductionSpec> AmaxReduction() {
    AmaxReductionSpec spec;
    if (Chance()) return std::nullopt;
    if (Chance()) {
      spec.group = Name();
    } else {
      spec.enabled = false;
    }
    return spec;
  }

  std::optional<UpdateSpec> Update() {
    UpdateSpec spec;
    if (Chance()) return std::nullopt;
    if (Chance()) spec.interval = 1 + Below(65536);
    if (Chance()) spec.staleness = Below(2);
    return spec;
  }

  void FillItems(ItemsSpec& spec) {
    FillPolicies(spec);
    if (Chance()) spec.all = Policy();
    spec.matmul = Matmul();
    spec.amax_reduction = AmaxReduction();
  }

  RuleSpec Rule() {
    RuleSpec rule;
    if (Chance()) {
      rule.module = Name() + "\\.[\"x]";
    } else {
      rule.layers.emplace().pattern = Name() + "\\.(\\d+)";
      rule.layers->first = Below(3);
      if (Chance()) {
        rule.layers->last = 1;
      } else {
        rule.layers->last_percent = Below(1001) / 10.0;
      }
    }
    FillItems(rule);
    rule.weight = Policy();  // at least one item
    if (Chance()) rule.optional = Chance();
    return rule;
  }

  std::mt19937 random_;
  int next_name_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_RECIPE_SPEC_GENERATOR_H_
