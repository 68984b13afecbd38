#include "recipe/policy.h"

namespace scalekeeper {

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

absl::string_view Name(BlockShape shape) {
  switch (shape) {
    case BlockShape::k1x128:
      return "B1X128";
    case BlockShape::k128x128:
      return "B128X128";
  }
  return "unknown";
}

absl::string_view Name(ScaleRounding rounding) {
  switch (rounding) {
    case ScaleRounding::kUp:
      return "UP";
    case ScaleRounding::kOcpFloor:
      return "OCP_FLOOR";
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

}  // namespace scalekeeper
