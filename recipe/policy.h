// What a recipe gives one module and role, after resolution: plain values.
//
// Every field is set (defaults filled in, inheritance done, ranges checked by
// Recipe); nothing downstream checks configuration again. Field meanings,
// defaults and trade-offs are documented once, in proto/recipe.proto.
#ifndef SCALEKEEPER_RECIPE_POLICY_H_
#define SCALEKEEPER_RECIPE_POLICY_H_

#include <array>
#include <cstdint>
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

enum class BlockShape { k1x128, k128x128 };
enum class ScaleRounding { kUp, kOcpFloor };

// kCurrent and kRowwise.
struct CurrentOptions {
  bool power_2_scale = false;
  float amax_epsilon = 0.0f;  // finite, >= 0
  std::string amax_group;     // empty: none
};

struct BlockOptions {
  BlockShape block_shape = BlockShape::k1x128;
  bool power_2_scale = false;
  float amax_epsilon = 0.0f;  // finite, >= 0
};

struct Mxfp8Options {
  ScaleRounding scale_rounding = ScaleRounding::kUp;
  bool two_dimensional = false;
};

struct Nvfp4Options {
  bool two_dimensional = false;
  bool stochastic_rounding = false;
  bool random_hadamard = false;
  bool four_over_six = false;
  int64_t seed = 0;
  std::string amax_group;  // empty: none
};

struct CustomOptions {
  std::string factory;  // not empty
  // A JSON object: keys sorted, no blanks, numbers with the fewest digits.
  std::string parameters = "{}";
};

bool operator==(const DelayedOptions& a, const DelayedOptions& b);
bool operator==(const CurrentOptions& a, const CurrentOptions& b);
bool operator==(const BlockOptions& a, const BlockOptions& b);
bool operator==(const Mxfp8Options& a, const Mxfp8Options& b);
bool operator==(const Nvfp4Options& a, const Nvfp4Options& b);
bool operator==(const CustomOptions& a, const CustomOptions& b);

struct Policy {
  Scaling scaling = Scaling::kHighPrecision;
  Format format = Format::kE4M3;              // not for kHighPrecision
  DType high_precision_dtype = DType::kBF16;  // kHighPrecision only
  DelayedOptions delayed;                     // kDelayed only
  CurrentOptions current;                     // kCurrent and kRowwise
  BlockOptions block;                         // kBlock only
  Mxfp8Options mxfp8;                         // kMxfp8 only
  Nvfp4Options nvfp4;                         // kNvfp4 only
  CustomOptions custom;                       // kCustom only
};

// Equal in every field that the scaling uses.
bool operator==(const Policy& a, const Policy& b);
inline bool operator!=(const Policy& a, const Policy& b) { return !(a == b); }

// Whether scales are made from the amaxes of the very tensor: an amax that is
// observed changes none, and only an inf or NaN in it counts.
bool ScalesItself(Scaling scaling);

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

// When amaxes become scales.
struct UpdatePolicy {
  int64_t interval = 1;   // steps
  int64_t staleness = 0;  // EndSteps: 0 or 1
};

// The group over whose ranks the amaxes of a tensor-level scale that is not
// delayed are reduced; empty: none.
const std::string& AmaxGroupOf(const Policy& policy);

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
// "B1X128", "B128X128"; "UP", "OCP_FLOOR".
absl::string_view Name(BlockShape shape);
absl::string_view Name(ScaleRounding rounding);
// As a recipe spells it: "BF16", "FP16", "FP32".
absl::string_view RecipeName(DType dtype);

// One line, every field that is not an empty text:
// "delayed E4M3 margin=0 amax_history_len=1024 ...".
std::string Describe(const Policy& policy);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_POLICY_H_
