// What the GEMMs of a GPU multiply natively, by the scalings of both operands:
// the one rule, for Freeze, `scalekeeper lint --chip` and Matmul.
//
//   plain x plain of one dtype                         every chip
//   per tensor x per tensor                            8.9 and newer
//   per tensor, rowwise, 1x128, 128x128 in any mixture 9.0
//   mxfp8 x mxfp8, nvfp4 x nvfp4                       10.0 and newer
//
// (NVIDIA, cuBLAS documentation, cublasLtMatmul; the first three as run on
// H200s.) All else is computed in bfloat16 where `emulate` allows it.
//
// Threads: any; pure functions.
//
// Example:
//   IsMultiplied(OperandKind::kMxfp8, OperandKind::kMxfp8, 90);    // false
#ifndef SCALEKEEPER_RECIPE_GEMM_CAPABILITY_H_
#define SCALEKEEPER_RECIPE_GEMM_CAPABILITY_H_

#include <string>

#include "recipe/policy.h"

namespace scalekeeper {

// The scales of an operand, whatever their layout.
enum class OperandKind {
  kPlain,      // no codes
  kPerTensor,  // delayed, current
  kRowwise,
  k1x128,
  k128x128,
  kMxfp8,
  kNvfp4,
  kOther,  // custom scaling, blocks of another size
};

// Of the tensors that are made under `policy`.
OperandKind OperandKindOf(const Policy& policy);

// `compute_capability` is 10 * major + minor. Of plain operands the dtype must
// agree, too.
bool IsMultiplied(OperandKind a, OperandKind b, int compute_capability);

// The chips that multiply the pair, for errors: "9.0", "10.0 and newer",
// "8.9 and newer", "every chip", or "no chip".
std::string ChipsThatMultiply(OperandKind a, OperandKind b);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_GEMM_CAPABILITY_H_
