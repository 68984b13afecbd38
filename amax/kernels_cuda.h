// The CUDA side of amax/kernels.h: kernels_cuda.cu and fused_step_cuda.cu, or
// kernels_no_cuda.cc where the build has no CUDA.
#ifndef SCALEKEEPER_AMAX_KERNELS_CUDA_H_
#define SCALEKEEPER_AMAX_KERNELS_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/arena_view.h"
#include "amax/kernels.h"
#include "amax/mailboxes.h"
#include "base/device.h"

namespace scalekeeper::cuda {

// FailedPrecondition when there is no such device or it is too old. Loads the
// kernels.
absl::Status ValidateAmaxDevice(int device);

absl::Status LoadFusedStep(int device);

absl::Status PackMessages(int device, const ArenaView& arena,
                          const uint32_t* skip_flag, Stream stream);
absl::Status RaiseSkipWords(int device, const ArenaView& arena,
                            const uint32_t* skip_flag, Stream stream);
absl::Status CountStep(int device, const ArenaView& arena, int64_t interval,
                       bool due, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream);
absl::Status KeepSkip(int device, const ArenaView& arena, int64_t interval,
                      const uint32_t* skip_flag, const StepGuard& guard,
                      Stream stream);
absl::Status HoldSlots(int device, const ArenaView& arena,
                       const uint32_t* skip_flag, const StepGuard& guard,
                       Stream stream);
absl::Status UpdateSlots(int device, const ArenaView& arena,
                         UpdateSource source, const uint32_t* skip_flag,
                         const StepGuard& guard, Stream stream);
absl::Status FusedStep(int device, const ArenaView& arena,
                       const GroupDescriptor& group, uint32_t group_index,
                       const Mailboxes& mailboxes, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream);
absl::Status SynchronizeDevice(int device);
absl::StatusOr<bool> IsCapturing(int device, Stream stream);

}  // namespace scalekeeper::cuda

#endif  // SCALEKEEPER_AMAX_KERNELS_CUDA_H_
