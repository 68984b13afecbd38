#include "recipe/policy.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "recipe/policy_options.h"

namespace scalekeeper {
namespace {

auto Fields(const DelayedOptions& v) {
  return std::tie(v.margin, v.amax_history_len, v.amax_compute_algo,
                  v.non_finite_amax, v.first_step);
}
auto Fields(const CurrentOptions& v) {
  return std::tie(v.power_2_scale, v.amax_epsilon, v.amax_group);
}
auto Fields(const BlockOptions& v) {
  return std::tie(v.block_shape, v.power_2_scale, v.amax_epsilon);
}
auto Fields(const Mxfp8Options& v) {
  return std::tie(v.scale_rounding, v.two_dimensional);
}
auto Fields(const Nvfp4Options& v) {
  return std::tie(v.two_dimensional, v.stochastic_rounding, v.random_hadamard,
                  v.four_over_six, v.seed, v.amax_group);
}
auto Fields(const CustomOptions& v) {
  return std::tie(v.factory, v.parameters);
}

}  // namespace

bool operator==(const DelayedOptions& a, const DelayedOptions& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const CurrentOptions& a, const CurrentOptions& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const BlockOptions& a, const BlockOptions& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const Mxfp8Options& a, const Mxfp8Options& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const Nvfp4Options& a, const Nvfp4Options& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const CustomOptions& a, const CustomOptions& b) {
  return Fields(a) == Fields(b);
}

bool operator==(const Policy& a, const Policy& b) {
  if (a.scaling != b.scaling) return false;
  if (a.scaling == Scaling::kHighPrecision) {
    return a.high_precision_dtype == b.high_precision_dtype;
  }
  if (a.format != b.format) return false;
  switch (a.scaling) {
    case Scaling::kHighPrecision:
      break;
    case Scaling::kDelayed:
      return a.delayed == b.delayed;
    case Scaling::kCurrent:
    case Scaling::kRowwise:
      return a.current == b.current;
    case Scaling::kBlock:
      return a.block == b.block;
    case Scaling::kMxfp8:
      return a.mxfp8 == b.mxfp8;
    case Scaling::kNvfp4:
      return a.nvfp4 == b.nvfp4;
    case Scaling::kCustom:
      return a.custom == b.custom;
  }
  return true;
}

bool ScalesItself(Scaling scaling) {
  switch (scaling) {
    case Scaling::kCurrent:
    case Scaling::kRowwise:
    case Scaling::kBlock:
    case Scaling::kMxfp8:
    case Scaling::kNvfp4:
    case Scaling::kCustom:
      return true;
    case Scaling::kHighPrecision:
    case Scaling::kDelayed:
      break;
  }
  return false;
}

const std::string& AmaxGroupOf(const Policy& policy) {
  static const std::string* const none = new std::string;
  switch (policy.scaling) {
    case Scaling::kCurrent:
    case Scaling::kRowwise:
      return policy.current.amax_group;
    case Scaling::kNvfp4:
      return policy.nvfp4.amax_group;
    default:
      return *none;
  }
}

bool operator==(const GemmPolicy& a, const GemmPolicy& b) {
  return a.fast_accum == b.fast_accum && a.high_precision == b.high_precision &&
         a.emulate == b.emulate;
}

bool operator==(const AmaxReductionPolicy& a, const AmaxReductionPolicy& b) {
  return a.enabled == b.enabled && a.group == b.group;
}

std::string Describe(const Policy& policy) {
  std::string text(Name(policy.scaling));
  if (policy.scaling != Scaling::kHighPrecision) {
    absl::StrAppend(&text, " ", Name(policy.format));
  }
  for (const PolicyOption& option : OptionsOf(policy)) {
    const bool is_text = option.kind == PolicyOption::Kind::kText;
    if (is_text && option.value.empty()) continue;
    absl::StrAppend(&text, " ", option.name, "=",
                    is_text ? Quoted(option.value) : option.value);
  }
  return text;
}

}  // namespace scalekeeper
