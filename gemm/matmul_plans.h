// Saves and loads the algorithms that Matmul chose by timing.
//
// On a CUDA device the first Matmul of a shape times what cuBLASLt offers,
// which allocates and waits. A job that starts with the plans of an earlier run
// on the same kind of chip does not, and every rank that loads one file makes
// the same choices (and so the same bits). A file is for one chip (name and
// number of multiprocessors) and one cuBLASLt version.
//
// The host has no plans: FailedPrecondition.
//
// Example:
//   SK_RETURN_IF_ERROR(LoadMatmulPlans(device, "h200.plans"));
//   ...                                           // the job
//   SK_RETURN_IF_ERROR(SaveMatmulPlans(device, "h200.plans"));
//   LoadMatmulPlans(device, "h100.plans");
//       // FailedPrecondition: h100.plans: matmul plans made for chip 'NVIDIA
//       // H100 80GB HBM3', this device has 'NVIDIA H200'
#ifndef SCALEKEEPER_GEMM_MATMUL_PLANS_H_
#define SCALEKEEPER_GEMM_MATMUL_PLANS_H_

#include <string>

#include "absl/status/status.h"
#include "base/device.h"

namespace scalekeeper {

// Writes every choice of the process for `device`, loaded ones included. The
// file appears whole or not at all.
absl::Status SaveMatmulPlans(Device device, const std::string& path);

// Takes the file's choices for shapes that have not been multiplied yet.
// InvalidArgument, with the line, for a damaged file, which then has no effect;
// FailedPrecondition for one of another chip or version; NotFound.
absl::Status LoadMatmulPlans(Device device, const std::string& path);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_MATMUL_PLANS_H_
