#include "recipe/policy_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

using Kind = PolicyOption::Kind;

class Lister {
 public:
  void Add(absl::string_view name, bool value, bool otherwise) {
    Append(name, Kind::kPlain, value ? "true" : "false", value == otherwise);
  }
  void Add(absl::string_view name, int64_t value, int64_t otherwise) {
    Append(name, Kind::kPlain, absl::StrCat(value), value == otherwise);
  }
  void Add(absl::string_view name, float value, float otherwise) {
    Append(name, Kind::kPlain, ShortestNumber(value), value == otherwise);
  }
  void AddText(absl::string_view name, const std::string& value) {
    Append(name, Kind::kText, value, value.empty());
  }
  // An enum's value.
  void AddWord(absl::string_view name, absl::string_view value,
               bool is_default) {
    Append(name, Kind::kWord, std::string(value), is_default);
  }
  void AddJson(absl::string_view name, const std::string& value,
               const std::string& otherwise) {
    Append(name, Kind::kJson, value, value == otherwise);
  }

  std::vector<PolicyOption> Take() { return std::move(options_); }

 private:
  void Append(absl::string_view name, Kind kind, std::string value,
              bool is_default) {
    options_.push_back({name, kind, std::move(value), is_default});
  }

  std::vector<PolicyOption> options_;
};

void List(const DelayedOptions& v, Lister& out) {
  const DelayedOptions d;
  out.Add("margin", int64_t{v.margin}, d.margin);
  out.Add("amax_history_len", int64_t{v.amax_history_len}, d.amax_history_len);
  out.AddWord("amax_compute_algo", Name(v.amax_compute_algo),
              v.amax_compute_algo == d.amax_compute_algo);
  out.AddWord("non_finite_amax", Name(v.non_finite_amax),
              v.non_finite_amax == d.non_finite_amax);
  out.AddWord("first_step", Name(v.first_step), v.first_step == d.first_step);
}

void List(const CurrentOptions& v, Lister& out) {
  const CurrentOptions d;
  out.Add("power_2_scale", v.power_2_scale, d.power_2_scale);
  out.Add("amax_epsilon", v.amax_epsilon, d.amax_epsilon);
  out.AddText("amax_group", v.amax_group);
}

void List(const BlockOptions& v, Lister& out) {
  const BlockOptions d;
  out.AddWord("block_shape", Name(v.block_shape), false);
  out.Add("power_2_scale", v.power_2_scale, d.power_2_scale);
  out.Add("amax_epsilon", v.amax_epsilon, d.amax_epsilon);
}

void List(const Mxfp8Options& v, Lister& out) {
  const Mxfp8Options d;
  out.AddWord("scale_rounding", Name(v.scale_rounding),
              v.scale_rounding == d.scale_rounding);
  out.Add("two_dimensional", v.two_dimensional, d.two_dimensional);
}

void List(const Nvfp4Options& v, Lister& out) {
  const Nvfp4Options d;
  out.Add("two_dimensional", v.two_dimensional, d.two_dimensional);
  out.Add("stochastic_rounding", v.stochastic_rounding, d.stochastic_rounding);
  out.Add("random_hadamard", v.random_hadamard, d.random_hadamard);
  out.Add("four_over_six", v.four_over_six, d.four_over_six);
  out.Add("seed", v.seed, d.seed);
  out.AddText("amax_group", v.amax_group);
}

void List(const CustomOptions& v, Lister& out) {
  out.AddText("factory", v.factory);
  out.AddJson("parameters", v.parameters, CustomOptions().parameters);
}

}  // namespace

std::vector<PolicyOption> OptionsOf(const Policy& policy) {
  Lister out;
  switch (policy.scaling) {
    case Scaling::kHighPrecision:
      out.AddWord("dtype", RecipeName(policy.high_precision_dtype),
                  policy.high_precision_dtype == Policy().high_precision_dtype);
      break;
    case Scaling::kDelayed:
      List(policy.delayed, out);
      break;
    case Scaling::kCurrent:
    case Scaling::kRowwise:
      List(policy.current, out);
      break;
    case Scaling::kBlock:
      List(policy.block, out);
      break;
    case Scaling::kMxfp8:
      List(policy.mxfp8, out);
      break;
    case Scaling::kNvfp4:
      List(policy.nvfp4, out);
      break;
    case Scaling::kCustom:
      List(policy.custom, out);
      break;
  }
  return out.Take();
}

}  // namespace scalekeeper
