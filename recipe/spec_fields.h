// The one list of a spec's fields, in schema order: reading, printing and
// comparing all walk it, so that a new field is added in one place.
//
// FieldsOf<Spec>::Visit(spec, visitor) calls visitor(field_name, member) for
// each field. Members are std::optional of a scalar, enum, Parameters or nested
// spec, a std::vector of nested specs, or a ScalingSpec (field name "scaling").
//
// Example:
//   struct Counter {
//     template <typename T> void operator()(const char*, const T&) { ++n; }
//     int n = 0;
//   } counter;
//   FieldsOf<GemmSpec>::Visit(spec, counter);  // counter.n == 3
#ifndef SCALEKEEPER_RECIPE_SPEC_FIELDS_H_
#define SCALEKEEPER_RECIPE_SPEC_FIELDS_H_

#include "recipe/spec.h"

namespace scalekeeper {

template <typename Spec>
struct FieldsOf;

// Which scaling a ScalingSpec names; not for std::monostate.
inline Scaling ScalingOf(const ScalingSpec& spec) {
  return static_cast<Scaling>(spec.index() - 1);
}

template <>
struct FieldsOf<HighPrecisionSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("dtype", s.dtype);
  }
};

template <>
struct FieldsOf<DelayedSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("margin", s.margin);
    v("amax_history_len", s.amax_history_len);
    v("amax_compute_algo", s.amax_compute_algo);
    v("non_finite_amax", s.non_finite_amax);
    v("first_step", s.first_step);
  }
};

template <>
struct FieldsOf<CurrentSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("power_2_scale", s.power_2_scale);
    v("amax_epsilon", s.amax_epsilon);
    v("amax_group", s.amax_group);
  }
};

template <>
struct FieldsOf<RowwiseSpec> : FieldsOf<CurrentSpec> {};

template <>
struct FieldsOf<BlockSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("block_shape", s.block_shape);
    v("power_2_scale", s.power_2_scale);
    v("amax_epsilon", s.amax_epsilon);
  }
};

template <>
struct FieldsOf<Mxfp8Spec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("scale_rounding", s.scale_rounding);
    v("two_dimensional", s.two_dimensional);
  }
};

template <>
struct FieldsOf<Nvfp4Spec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("two_dimensional", s.two_dimensional);
    v("stochastic_rounding", s.stochastic_rounding);
    v("random_hadamard", s.random_hadamard);
    v("four_over_six", s.four_over_six);
    v("seed", s.seed);
    v("amax_group", s.amax_group);
  }
};

template <>
struct FieldsOf<CustomSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("factory", s.factory);
    v("parameters", s.parameters);
  }
};

template <>
struct FieldsOf<PolicySpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("format", s.format);
    v("scaling", s.scaling);
  }
};

template <>
struct FieldsOf<RolePoliciesSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("input", s.input);
    v("weight", s.weight);
    v("grad", s.grad);
    v("all", s.all);
  }
};

template <>
struct FieldsOf<GemmSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("fast_accum", s.fast_accum);
    v("high_precision", s.high_precision);
    v("emulate", s.emulate);
  }
};

template <>
struct FieldsOf<MatmulSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("fprop", s.fprop);
    v("dgrad", s.dgrad);
    v("wgrad", s.wgrad);
  }
};

template <>
struct FieldsOf<AmaxReductionSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("enabled", s.enabled);
    v("group", s.group);
  }
};

template <>
struct FieldsOf<UpdateSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("interval", s.interval);
    v("staleness", s.staleness);
  }
};

template <>
struct FieldsOf<LayersSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("pattern", s.pattern);
    v("first", s.first);
    v("last", s.last);
    v("last_percent", s.last_percent);
  }
};

template <>
struct FieldsOf<ItemsSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    FieldsOf<RolePoliciesSpec>::Visit(s, v);
    v("matmul", s.matmul);
    v("amax_reduction", s.amax_reduction);
  }
};

template <>
struct FieldsOf<RuleSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("module", s.module);
    v("layers", s.layers);
    FieldsOf<ItemsSpec>::Visit(s, v);
    v("optional", s.optional);
  }
};

template <>
struct FieldsOf<PhaseSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("from_step", s.from_step);
    FieldsOf<ItemsSpec>::Visit(s, v);
    v("rule", s.rules);
  }
};

template <>
struct FieldsOf<RecipeSpec> {
  template <typename S, typename V>
  static void Visit(S& s, V& v) {
    v("name", s.name);
    v("description", s.description);
    v("schema_version", s.schema_version);
    v("defaults", s.defaults);
    v("rule", s.rules);
    v("amax_reduction", s.amax_reduction);
    v("matmul", s.matmul);
    v("phase", s.phases);
    v("update", s.update);
  }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_SPEC_FIELDS_H_
