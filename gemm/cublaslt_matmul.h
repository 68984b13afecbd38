// The CUDA backend of gemm/matmul.h and gemm/matmul_plans.h: implemented by
// cublaslt_matmul.cc, or by matmul_no_cuda.cc where the build has no CUDA.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_MATMUL_H_
#define SCALEKEEPER_GEMM_CUBLASLT_MATMUL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/device.h"
#include "gemm/matmul_problem.h"

namespace scalekeeper::internal {

// `problems` have been checked; all are on one CUDA device. Several may run at
// once: on streams of the library's own, forked from `stream` and joined to it.
// (Not those with custom operands, whose makers queue on `stream`.)
absl::Status MatmulCuda(absl::Span<const MatmulProblem> problems,
                        Stream stream);

absl::Status SaveMatmulPlansCuda(int device, const std::string& path);
absl::Status LoadMatmulPlansCuda(int device, const std::string& path);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_CUBLASLT_MATMUL_H_
