#include "amax/kernels.h"

#include "absl/strings/str_cat.h"
#include "amax/kernels_host.h"
#include "base/status_macros.h"

namespace scalekeeper {

absl::Status ValidateAmaxDevice(const Device& device) {
  switch (device.kind) {
    case DeviceKind::kHost:
      return absl::OkStatus();
    case DeviceKind::kCuda:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "device: got ", Name(device),
      ", want host: amax state has no backend for this device in this build"));
}

absl::Status PackMessages(const Device& device, const ArenaView& arena,
                          const uint32_t* skip_flag, Stream) {
  SK_RETURN_IF_ERROR(ValidateAmaxDevice(device));
  PackMessagesHost(arena, skip_flag);
  return absl::OkStatus();
}

absl::Status UpdateSlots(const Device& device, const ArenaView& arena,
                         const uint32_t* skip_flag, Stream) {
  SK_RETURN_IF_ERROR(ValidateAmaxDevice(device));
  UpdateSlotsHost(arena, skip_flag);
  return absl::OkStatus();
}

absl::Status UndoSlots(const Device& device, const ArenaView& arena, Stream) {
  SK_RETURN_IF_ERROR(ValidateAmaxDevice(device));
  UndoSlotsHost(arena);
  return absl::OkStatus();
}

absl::Status RehashScales(const Device& device, const ArenaView& arena,
                          Stream) {
  SK_RETURN_IF_ERROR(ValidateAmaxDevice(device));
  RehashScalesHost(arena);
  return absl::OkStatus();
}

}  // namespace scalekeeper
