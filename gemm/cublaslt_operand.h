// Brings operands to where gemm/operand_layout.h places them.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_OPERAND_H_
#define SCALEKEEPER_GEMM_CUBLASLT_OPERAND_H_

#include "absl/status/statusor.h"
#include "cuda_runtime_api.h"
#include "gemm/matmul_input.h"
#include "gemm/operand_layout.h"
#include "library_types.h"

namespace scalekeeper::internal {

cudaDataType_t TypeOf(const MatmulInput& input);

// The pointers for the call, after enqueuing what fills the staging memory.
absl::StatusOr<const void*> Bring(const MatmulInput& operand,
                                  const Placement& place, char* staging,
                                  cudaStream_t stream);
absl::StatusOr<const void*> BringScales(const MatmulInput& operand,
                                        const PlacedScales& scales,
                                        const Placement& place, char* staging,
                                        cudaStream_t stream);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_CUBLASLT_OPERAND_H_
