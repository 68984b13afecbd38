// Products that the chip does not multiply natively: dequantized tile by tile
// into bfloat16, multiplied with float32 sums (gemm/matmul.h states the bound).
//
// Scales of whole tensors and rows, and NVFP4's tensor scales, are left out of
// the bfloat16 values and multiply the sums: so every value of the field's
// formats is exact.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_EMULATION_H_
#define SCALEKEEPER_GEMM_CUBLASLT_EMULATION_H_

#include "absl/status/status.h"
#include "gemm/cublaslt_context.h"
#include "gemm/cublaslt_plan.h"
#include "gemm/matmul_problem.h"

namespace scalekeeper::internal {

// Neither empty nor K = 0, without custom operands. Hold the workspace's mutex.
// Of an output of codes, scale_inv and the transpose are left to the caller.
absl::Status MultiplyEmulated(const MatmulProblem& p, MatmulContext* context,
                              const MatmulSite& site,
                              StreamWorkspace* workspace);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_CUBLASLT_EMULATION_H_
