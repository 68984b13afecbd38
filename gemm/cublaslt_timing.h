// Orders the algorithms of a plan by measured time.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_TIMING_H_
#define SCALEKEEPER_GEMM_CUBLASLT_TIMING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "cublasLt.h"
#include "gemm/cublaslt_plan.h"

namespace scalekeeper {

// `candidates` without those that cuBLASLt refuses, the fastest first.
// Each is timed with a cold L2 cache and then back to back, as calls come in a
// training step, where some operands are still cached. The order is that of the
// larger of the two losses against the best: no algorithm comes first that is
// only good at one of them. Those within 2% of the best are then timed in more
// rounds: they differ by less than a few rounds show.
//
// Allocates operands like the plan's, fills them with random values, and waits
// for the stream. ResourceExhausted when the operands do not fit into memory;
// other errors are those of the device.
absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> OrderByTime(
    MatmulPlan* plan, const std::vector<cublasLtMatmulAlgo_t>& candidates,
    const MatmulSite& site);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CUBLASLT_TIMING_H_
