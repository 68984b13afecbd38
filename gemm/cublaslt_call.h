// What native and emulated products share.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_CALL_H_
#define SCALEKEEPER_GEMM_CUBLASLT_CALL_H_

#include "absl/status/statusor.h"
#include "cuda_runtime_api.h"
#include "gemm/cublaslt_context.h"
#include "gemm/cublaslt_plan.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/matmul_plan_key.h"
#include "gemm/matmul_problem.h"

namespace scalekeeper::internal {

MatmulSite SiteOf(const MatmulContext& context, StreamWorkspace* workspace,
                  cudaStream_t stream);

// The plan for `key`, which is one of p's products: of a varying problem, that
// of its class of sizes. Null when cuBLASLt has refused it. InvalidArgument
// when there is no plan yet and p's memory is not on the device that its views
// name: there is none then the next time, too.
absl::StatusOr<MatmulPlan*> PlanFor(const MatmulProblem& p,
                                    MatmulContext* context,
                                    const MatmulPlanKey& key);

// How sums become `p.out`; without the sums.
FinishArguments FinishingOf(const MatmulProblem& p);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_CUBLASLT_CALL_H_
