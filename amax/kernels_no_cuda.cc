#include "absl/strings/str_cat.h"
#include "amax/kernels_cuda.h"
#include "base/no_cuda.h"

namespace scalekeeper::cuda {
namespace {

absl::Status NoCuda(int device) {
  return BuiltWithoutCuda(absl::StrCat("amax state on cuda:", device));
}

}  // namespace

absl::Status ValidateAmaxDevice(int device) { return NoCuda(device); }
absl::Status PackMessages(int device, const ArenaView&, const uint32_t*,
                          Stream) {
  return NoCuda(device);
}
absl::Status RaiseSkipWords(int device, const ArenaView&, const uint32_t*,
                            Stream) {
  return NoCuda(device);
}
absl::Status CountStep(int device, const ArenaView&, int64_t, bool,
                       const uint32_t*, const StepGuard&, Stream) {
  return NoCuda(device);
}
absl::Status KeepSkip(int device, const ArenaView&, int64_t, const uint32_t*,
                      const StepGuard&, Stream) {
  return NoCuda(device);
}
absl::Status HoldSlots(int device, const ArenaView&, const uint32_t*,
                       const StepGuard&, Stream) {
  return NoCuda(device);
}
absl::Status UpdateSlots(int device, const ArenaView&, UpdateSource,
                         const uint32_t*, const StepGuard&, Stream) {
  return NoCuda(device);
}
absl::Status FusedStep(int device, const ArenaView&, const GroupDescriptor&,
                       uint32_t, const Mailboxes&, const uint32_t*,
                       const StepGuard&, Stream) {
  return NoCuda(device);
}
absl::Status SynchronizeDevice(int device) { return NoCuda(device); }
absl::StatusOr<bool> IsCapturing(int device, Stream) { return NoCuda(device); }

}  // namespace scalekeeper::cuda
