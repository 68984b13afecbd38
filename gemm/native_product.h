// Which products a chip computes natively, and in which of cuBLASLt's scale
// modes; needs neither a GPU nor CUDA.
//
// Scale modes, by the two operands' kinds (recipe/gemm_capability.h says on
// which chips):
//   per tensor x per tensor                    scalar
//   per tensor or rowwise, not both per tensor outer vectors
//   one of them with float32 blocks            1x128; the 128x128 blocks of one
//                                              operand as such
//   mxfp8 x mxfp8, nvfp4 x nvfp4               1x32, 1x16 in 128x4 tiles
#ifndef SCALEKEEPER_GEMM_NATIVE_PRODUCT_H_
#define SCALEKEEPER_GEMM_NATIVE_PRODUCT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gemm/matmul_input.h"
#include "gemm/matmul_problem.h"
#include "gemm/plan_file.h"
#include "recipe/gemm_capability.h"

namespace scalekeeper::internal {

// With the numbers of cublasLtMatmulMatrixScale_t.
enum class ScaleMode : int32_t {
  kScalar = 0,
  kVec16Ue4m3 = 1,
  kVec32Ue8m0 = 2,
  kOuterVec = 3,
  kVec128 = 4,
  kBlock128x128 = 5,
};

// Float32 blocks along K: these modes take no fast accumulation.
inline bool IsBlocked(ScaleMode mode) {
  return mode == ScaleMode::kVec128 || mode == ScaleMode::kBlock128x128;
}
// In 128x4 tiles of bytes.
inline bool IsTiled(ScaleMode mode) {
  return mode == ScaleMode::kVec16Ue4m3 || mode == ScaleMode::kVec32Ue8m0;
}

OperandKind KindOf(const MatmulInput& input);

struct ScaleModes {
  ScaleMode a = ScaleMode::kScalar;
  ScaleMode b = ScaleMode::kScalar;
};
// nullopt where the chip multiplies no such pair.
std::optional<ScaleModes> ChooseScaleModes(const MatmulInput& a,
                                           const MatmulInput& b,
                                           int compute_capability);

// FailedPrecondition for a product without `emulate`: that the chip multiplies
// no such pair, or, where it does, that cuBLASLt has no algorithm for this one.
absl::Status RefuseProduct(const MatmulProblem& problem,
                           const ChipIdentity& chip, int compute_capability);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_NATIVE_PRODUCT_H_
