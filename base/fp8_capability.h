// Which chips have FP8: the one rule, for all that need it.
//
// Example:
//   CheckHasFp8(Device::Cuda(0), 80);
//       // FailedPrecondition: cuda:0 has compute capability 8.0, want 8.9 or
//       // newer: older chips have no FP8 conversions and tensor cores
#ifndef SCALEKEEPER_BASE_FP8_CAPABILITY_H_
#define SCALEKEEPER_BASE_FP8_CAPABILITY_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/device.h"

namespace scalekeeper {

// `compute_capability` is 10 * major + minor.
inline absl::Status CheckHasFp8(Device device, int compute_capability) {
  if (compute_capability >= 89) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Name(device), " has compute capability ", compute_capability / 10, ".",
      compute_capability % 10,
      ", want 8.9 or newer: older chips have no FP8 conversions and tensor "
      "cores"));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_FP8_CAPABILITY_H_
