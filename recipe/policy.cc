#include "recipe/policy.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace scalekeeper {

bool operator==(const Policy& a, const Policy& b) {
  if (a.scaling != b.scaling) return false;
  if (a.scaling == Scaling::kHighPrecision) {
    return a.high_precision_dtype == b.high_precision_dtype;
  }
  if (a.format != b.format) return false;
  switch (a.scaling) {
    case Scaling::kDelayed:
      return a.delayed.margin == b.delayed.margin &&
             a.delayed.amax_history_len == b.delayed.amax_history_len &&
             a.delayed.amax_compute_algo == b.delayed.amax_compute_algo &&
             a.delayed.non_finite_amax == b.delayed.non_finite_amax &&
             a.delayed.first_step == b.delayed.first_step;
    case Scaling::kCurrent:
      return a.current.power_2_scale == b.current.power_2_scale &&
             a.current.amax_epsilon == b.current.amax_epsilon;
    default:
      return true;
  }
}

bool operator==(const GemmPolicy& a, const GemmPolicy& b) {
  return a.fast_accum == b.fast_accum && a.high_precision == b.high_precision &&
         a.emulate == b.emulate;
}

bool operator==(const AmaxReductionPolicy& a, const AmaxReductionPolicy& b) {
  return a.enabled == b.enabled && a.group == b.group;
}

absl::string_view Name(Role role) {
  switch (role) {
    case Role::kInput:
      return "input";
    case Role::kWeight:
      return "weight";
    case Role::kGrad:
      return "grad";
  }
  return "unknown";
}

absl::string_view Name(Gemm gemm) {
  switch (gemm) {
    case Gemm::kFprop:
      return "fprop";
    case Gemm::kDgrad:
      return "dgrad";
    case Gemm::kWgrad:
      return "wgrad";
  }
  return "unknown";
}

absl::string_view Name(Scaling scaling) {
  switch (scaling) {
    case Scaling::kHighPrecision:
      return "high_precision";
    case Scaling::kDelayed:
      return "delayed";
    case Scaling::kCurrent:
      return "current";
    case Scaling::kRowwise:
      return "rowwise";
    case Scaling::kBlock:
      return "block";
    case Scaling::kMxfp8:
      return "mxfp8";
    case Scaling::kNvfp4:
      return "nvfp4";
    case Scaling::kCustom:
      return "custom";
  }
  return "unknown";
}

absl::string_view Name(Format format) {
  switch (format) {
    case Format::kE4M3:
      return "E4M3";
    case Format::kE5M2:
      return "E5M2";
    case Format::kE2M1:
      return "E2M1";
  }
  return "unknown";
}

absl::string_view Name(AmaxComputeAlgo algo) {
  switch (algo) {
    case AmaxComputeAlgo::kMax:
      return "MAX";
    case AmaxComputeAlgo::kMostRecent:
      return "MOST_RECENT";
  }
  return "unknown";
}

absl::string_view Name(NonFiniteAmax policy) {
  switch (policy) {
    case NonFiniteAmax::kSkip:
      return "SKIP";
    case NonFiniteAmax::kFreeze:
      return "FREEZE";
    case NonFiniteAmax::kBackOff:
      return "BACK_OFF";
  }
  return "unknown";
}

absl::string_view Name(FirstStep first_step) {
  switch (first_step) {
    case FirstStep::kMeasure:
      return "MEASURE";
    case FirstStep::kUnit:
      return "UNIT";
  }
  return "unknown";
}

absl::string_view RecipeName(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "FP16";
    case DType::kF32:
      return "FP32";
    case DType::kUint8:
      break;
  }
  return "unknown";
}

std::string Describe(const Policy& policy) {
  if (policy.scaling == Scaling::kHighPrecision) {
    return absl::StrCat("high_precision dtype=",
                        RecipeName(policy.high_precision_dtype));
  }
  std::string text =
      absl::StrCat(Name(policy.scaling), " ", Name(policy.format));
  if (policy.scaling == Scaling::kDelayed) {
    const DelayedOptions& d = policy.delayed;
    absl::StrAppend(&text, " margin=", d.margin,
                    " amax_history_len=", d.amax_history_len,
                    " amax_compute_algo=", Name(d.amax_compute_algo),
                    " non_finite_amax=", Name(d.non_finite_amax),
                    " first_step=", Name(d.first_step));
  } else if (policy.scaling == Scaling::kCurrent) {
    absl::StrAppend(
        &text,
        " power_2_scale=", policy.current.power_2_scale ? "true" : "false",
        " amax_epsilon=", ShortestNumber(policy.current.amax_epsilon));
  }
  return text;
}

}  // namespace scalekeeper
