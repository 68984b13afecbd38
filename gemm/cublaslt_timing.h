// Orders the algorithms of a plan by measured time.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_TIMING_H_
#define SCALEKEEPER_GEMM_CUBLASLT_TIMING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "cublasLt.h"
#include "gemm/cublaslt_plan.h"

namespace scalekeeper {

// `candidates` without those that cuBLASLt refuses, the fastest first.
// Allocates operands like the plan's, fills them with random values, evicts the
// L2 cache before every run, and waits for the stream. ResourceExhausted when
// the operands do not fit into memory; other errors are those of the device.
absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> OrderByTime(
    MatmulPlan* plan, const std::vector<cublasLtMatmulAlgo_t>& candidates,
    const MatmulSite& site);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CUBLASLT_TIMING_H_
