#include "amax/kernels.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "amax/kernels_cuda.h"
#include "amax/kernels_host.h"

namespace scalekeeper {
namespace {

absl::Status OnlyOnCuda(absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(what, " is of steps on a CUDA device, got one on the host"));
}

bool OnCuda(const Device& device) { return device.kind == DeviceKind::kCuda; }

}  // namespace

absl::Status ValidateAmaxDevice(const Device& device) {
  return OnCuda(device) ? cuda::ValidateAmaxDevice(device.index)
                        : absl::OkStatus();
}

absl::Status PackMessages(const Device& device, const ArenaView& arena,
                          const uint32_t* skip_flag, Stream stream) {
  if (OnCuda(device)) {
    return cuda::PackMessages(device.index, arena, skip_flag, stream);
  }
  PackMessagesHost(arena, skip_flag);
  return absl::OkStatus();
}

absl::Status RaiseSkipWords(const Device& device, const ArenaView& arena,
                            const uint32_t* skip_flag, Stream stream) {
  if (!OnCuda(device)) return OnlyOnCuda("RaiseSkipWords");
  return cuda::RaiseSkipWords(device.index, arena, skip_flag, stream);
}

absl::Status CountStep(const Device& device, const ArenaView& arena,
                       int64_t interval, bool due, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream) {
  if (OnCuda(device)) {
    return cuda::CountStep(device.index, arena, interval, due, skip_flag, guard,
                           stream);
  }
  CountStepHost(arena, skip_flag);
  return absl::OkStatus();
}

absl::Status KeepSkip(const Device& device, const ArenaView& arena,
                      int64_t interval, const uint32_t* skip_flag,
                      const StepGuard& guard, Stream stream) {
  if (OnCuda(device)) {
    return cuda::KeepSkip(device.index, arena, interval, skip_flag, guard,
                          stream);
  }
  KeepSkipHost(arena, skip_flag);
  return absl::OkStatus();
}

absl::Status HoldSlots(const Device& device, const ArenaView& arena,
                       const uint32_t* skip_flag, const StepGuard& guard,
                       Stream stream) {
  if (OnCuda(device)) {
    return cuda::HoldSlots(device.index, arena, skip_flag, guard, stream);
  }
  HoldSlotsHost(arena, skip_flag);
  return absl::OkStatus();
}

absl::Status UpdateSlots(const Device& device, const ArenaView& arena,
                         UpdateSource source, const uint32_t* skip_flag,
                         const StepGuard& guard, Stream stream) {
  if (OnCuda(device)) {
    return cuda::UpdateSlots(device.index, arena, source, skip_flag, guard,
                             stream);
  }
  if (source != UpdateSource::kMessages) return OnlyOnCuda("kExchanged");
  UpdateSlotsHost(arena, skip_flag);
  return absl::OkStatus();
}

absl::Status FusedStep(const Device& device, const ArenaView& arena,
                       const GroupDescriptor& group, uint32_t group_index,
                       const Mailboxes& mailboxes, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream) {
  if (!OnCuda(device)) return OnlyOnCuda("FusedStep");
  return cuda::FusedStep(device.index, arena, group, group_index, mailboxes,
                         skip_flag, guard, stream);
}

absl::Status SynchronizeDevice(const Device& device) {
  return OnCuda(device) ? cuda::SynchronizeDevice(device.index)
                        : absl::OkStatus();
}

absl::StatusOr<bool> IsCapturing(const Device& device, Stream stream) {
  return OnCuda(device) ? cuda::IsCapturing(device.index, stream)
                        : absl::StatusOr<bool>(false);
}

}  // namespace scalekeeper
