#include "amax/kernels_cuda.h"
#include "base/no_cuda.h"

namespace scalekeeper::cuda {
namespace {

absl::Status NoCuda() { return BuiltWithoutCuda("amax state on a CUDA device"); }

}  // namespace

absl::Status ValidateAmaxDevice(int) { return NoCuda(); }
absl::Status PackMessages(int, const ArenaView&, const uint32_t*, Stream) {
  return NoCuda();
}
absl::Status RaiseSkipWords(int, const ArenaView&, const uint32_t*, Stream) {
  return NoCuda();
}
absl::Status UpdateSlots(int, const ArenaView&, UpdateSource, const uint32_t*,
                         const StepGuard&, Stream) {
  return NoCuda();
}
absl::Status FusedStep(int, const ArenaView&, const GroupDescriptor&, uint32_t,
                       const Mailboxes&, const uint32_t*, const StepGuard&,
                       Stream) {
  return NoCuda();
}
absl::Status SynchronizeDevice(int) { return NoCuda(); }
absl::StatusOr<bool> IsCapturing(int, Stream) { return NoCuda(); }

}  // namespace scalekeeper::cuda
