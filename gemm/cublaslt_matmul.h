// The CUDA backend of gemm/matmul.h and gemm/matmul_plans.h: implemented by
// cublaslt_matmul.cc, or by matmul_no_cuda.cc where the build has no CUDA.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_MATMUL_H_
#define SCALEKEEPER_GEMM_CUBLASLT_MATMUL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/device.h"
#include "gemm/matmul_problem.h"

namespace scalekeeper::internal {

// `problem` has been checked; all of it is on one CUDA device.
absl::Status MatmulCuda(const MatmulProblem& problem, Stream stream);

// The same for several, of one device, that may run at once: on streams of the
// library's own, forked from `stream` and joined to it.
absl::Status MatmulGroupCuda(const std::vector<MatmulProblem>& problems,
                             Stream stream);

absl::Status SaveMatmulPlansCuda(int device, const std::string& path);
absl::Status LoadMatmulPlansCuda(int device, const std::string& path);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_CUBLASLT_MATMUL_H_
