#include "base/no_cuda.h"
#include "gemm/cublaslt_matmul.h"

namespace scalekeeper::internal {

absl::Status MatmulCuda(absl::Span<const MatmulProblem>, Stream) {
  return BuiltWithoutCuda("Matmul on a CUDA device");
}
absl::Status SaveMatmulPlansCuda(int, const std::string&) {
  return BuiltWithoutCuda("SaveMatmulPlans of a CUDA device");
}
absl::Status LoadMatmulPlansCuda(int, const std::string&) {
  return BuiltWithoutCuda("LoadMatmulPlans for a CUDA device");
}

}  // namespace scalekeeper::internal
