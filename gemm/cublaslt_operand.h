// Operands as cublasLtMatmul takes them: where their elements and scales lie,
// and what must be laid out anew in staging memory.
//
// cuBLASLt takes 8-bit operands only with K running fastest in both (TN), 16-
// byte aligned pointers and leading dimensions, and scales in a layout of its
// own:
//   codes without a copy in which K runs fastest   transposed
//   codes with K not a multiple of 16              padded with zeros
//   a pointer or leading dimension that is not a multiple of 16 bytes, or no
//   unit stride                                    copied
//   scales of another layout or of a finer mode    written out
// Zeros add nothing to a sum, so none of this changes a result.
//
// Scale modes (cublasLtMatmulMatrixScale_t), by the two operands' kinds:
//   per tensor x per tensor                    SCALAR
//   per tensor or rowwise, not both per tensor OUTER_VEC    (9.0 only)
//   one of them with float32 blocks            VEC128; the 128 x 128 blocks of
//                                              one operand BLK128x128 (9.0
//                                              only)
//   mxfp8 x mxfp8, nvfp4 x nvfp4               VEC32_UE8M0, VEC16_UE4M3 (10.0
//                                              on), read where they lie
#ifndef SCALEKEEPER_GEMM_CUBLASLT_OPERAND_H_
#define SCALEKEEPER_GEMM_CUBLASLT_OPERAND_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "cublasLt.h"
#include "cuda_runtime_api.h"
#include "gemm/matmul_input.h"

namespace scalekeeper::internal {

int64_t RoundUp(int64_t value, int64_t multiple);

// To what cuBLASLt demands of every pointer.
bool IsAligned(const void* pointer);

// True when a column of `length` elements, `stride` apart, `count` of them
// `distance` apart, is what cuBLASLt takes; sets *ld.
bool IsTaken(int64_t length, int64_t stride, int64_t count, int64_t distance,
             int64_t element_bytes, int64_t* ld);

// Hands out parts of the staging memory.
class StagingLayout {
 public:
  size_t Add(int64_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// An outer x K matrix: outer is M for a, N for b (transposed).
struct Operand {
  MatmulInput input;
  cudaDataType_t type = CUDA_R_32F;

  const ConstTensorView& values() const { return input.values; }
  bool is_codes() const { return input.is_codes(); }
};
Operand OperandOf(const MatmulInput& input);

using ScaleMode = cublasLtMatmulMatrixScale_t;
struct ScaleModes {
  ScaleMode a = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  ScaleMode b = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};
// nullopt where the chip multiplies no such pair. `compute_capability` is 90
// for 9.0.
std::optional<ScaleModes> ChooseScaleModes(const Operand& a, const Operand& b,
                                           int compute_capability);
// Float32 blocks along K: these modes take no fast accumulation.
bool IsBlocked(ScaleMode mode);

// Where an operand lies for the call.
struct Placement {
  bool is_staged = false;
  size_t offset = 0;          // in the staging memory
  bool depth_fastest = true;  // K is contiguous; else the other dimension
  int64_t ld = 0;
  int64_t outer = 0, depth = 0;  // padded
};
Placement Place(const Operand& operand, int64_t outer, int64_t depth,
                StagingLayout* staging);

// And its scales, for an operand placed so.
struct PlacedScales {
  ScaleMode mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  bool is_staged = false;
  size_t offset = 0;
};
PlacedScales PlaceScales(const Operand& operand, ScaleMode mode,
                         const Placement& placement, StagingLayout* staging);

// The pointers for the call, after enqueuing what fills the staging memory.
absl::StatusOr<const void*> Bring(const Operand& operand,
                                  const Placement& place, char* staging,
                                  cudaStream_t stream);
absl::StatusOr<const void*> BringScales(const Operand& operand,
                                        const PlacedScales& scales,
                                        const Placement& place, char* staging,
                                        cudaStream_t stream);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_CUBLASLT_OPERAND_H_
