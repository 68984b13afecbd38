#include "gemm/matmul_plans.h"

#include "gemm/cublaslt_matmul.h"

namespace scalekeeper {
namespace {

absl::Status HostHasNoPlans() {
  return absl::FailedPreconditionError(
      "matmul plans: the host multiplies without plans, want a CUDA device");
}

}  // namespace

absl::Status SaveMatmulPlans(Device device, const std::string& path) {
  if (device.kind == DeviceKind::kHost) return HostHasNoPlans();
  return internal::SaveMatmulPlansCuda(device.index, path);
}

absl::Status LoadMatmulPlans(Device device, const std::string& path) {
  if (device.kind == DeviceKind::kHost) return HostHasNoPlans();
  return internal::LoadMatmulPlansCuda(device.index, path);
}

}  // namespace scalekeeper
