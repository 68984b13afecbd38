// What a recipe gives one module and role, after resolution: plain values.
//
// Every field is set (defaults filled in, inheritance done, ranges checked by
// Recipe); nothing downstream checks configuration again. Field meanings,
// defaults and trade-offs are documented once, in proto/recipe.proto.
#ifndef SCALEKEEPER_RECIPE_POLICY_H_
#define SCALEKEEPER_RECIPE_POLICY_H_

#include <array>
#include <string>

#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "numerics/format.h"

namespace scalekeeper {

// The tensors of a linear layer: input (x), weight (w), grad (of the output).
enum class Role { kInput, kWeight, kGrad };
inline constexpr std::array<Role, 3> kRoles = {Role::kInput, Role::kWeight,
                                               Role::kGrad};

// Its GEMMs: fprop = x w^T, dgrad = dy w, wgrad = dy^T x.
enum class Gemm { kFprop, kDgrad, kWgrad };
inline constexpr std::array<Gemm, 3> kGemms = {Gemm::kFprop, Gemm::kDgrad,
                                               Gemm::kWgrad};

enum class Scaling {
  kHighPrecision,
  kDelayed,
  kCurrent,
  kRowwise,
  kBlock,
  kMxfp8,
  kNvfp4,
  kCustom,
};

enum class AmaxComputeAlgo { kMax, kMostRecent };
enum class NonFiniteAmax { kSkip, kFreeze, kBackOff };
enum class FirstStep { kMeasure, kUnit };

struct DelayedOptions {
  int margin = 0;               // 0..32
  int amax_history_len = 1024;  // 1..65536
  AmaxComputeAlgo amax_compute_algo = AmaxComputeAlgo::kMax;
  NonFiniteAmax non_finite_amax = NonFiniteAmax::kSkip;
  FirstStep first_step = FirstStep::kMeasure;
};

struct CurrentOptions {
  bool power_2_scale = false;
  float amax_epsilon = 0.0f;  // finite, >= 0
};

struct Policy {
  Scaling scaling = Scaling::kHighPrecision;
  Format format = Format::kE4M3;              // not for kHighPrecision
  DType high_precision_dtype = DType::kBF16;  // kHighPrecision only
  DelayedOptions delayed;                     // kDelayed only
  CurrentOptions current;                     // kCurrent only
};

// Equal in every field that the scaling uses.
bool operator==(const Policy& a, const Policy& b);
inline bool operator!=(const Policy& a, const Policy& b) { return !(a == b); }

struct GemmPolicy {
  bool fast_accum = false;
  bool high_precision = false;
  bool emulate = false;
};

bool operator==(const GemmPolicy& a, const GemmPolicy& b);

struct AmaxReductionPolicy {
  bool enabled = true;
  std::string group = "default";  // empty when not enabled
};

bool operator==(const AmaxReductionPolicy& a, const AmaxReductionPolicy& b);

// "input", "weight", "grad".
absl::string_view Name(Role role);
// "fprop", "dgrad", "wgrad".
absl::string_view Name(Gemm gemm);
// The recipe's field name: "high_precision", "delayed", "current", ...
absl::string_view Name(Scaling scaling);
// "E4M3", "E5M2", "E2M1".
absl::string_view Name(Format format);
// "MAX", "MOST_RECENT"; "SKIP", "FREEZE", "BACK_OFF"; "MEASURE", "UNIT".
absl::string_view Name(AmaxComputeAlgo algo);
absl::string_view Name(NonFiniteAmax policy);
absl::string_view Name(FirstStep first_step);
// As a recipe spells it: "BF16", "FP16", "FP32".
absl::string_view RecipeName(DType dtype);

// One line, every field: "delayed E4M3 margin=0 amax_history_len=1024 ...".
std::string Describe(const Policy& policy);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_POLICY_H_
