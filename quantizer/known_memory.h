// Asks once whether a pointer is memory of a device, and remembers the last
// one: asking costs a tenth of a call, and buffers come back step after step.
//
// Threads: any number of calls at once.
//
// Example:
//   KnownMemory known;
//   SK_RETURN_IF_ERROR(known.Check(device, x.data, "x"));
#ifndef SCALEKEEPER_QUANTIZER_KNOWN_MEMORY_H_
#define SCALEKEEPER_QUANTIZER_KNOWN_MEMORY_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/device.h"
#include "base/device_memory.h"

namespace scalekeeper {

class KnownMemory {
 public:
  // Null is fine. InvalidArgument as CheckMemory gives it, with `what`.
  absl::Status Check(Device device, const void* data,
                     absl::string_view what) const {
    if (device.kind == DeviceKind::kHost || data == nullptr ||
        last_.load(std::memory_order_relaxed) == data) {
      return absl::OkStatus();
    }
    absl::Status status = CheckMemory(device, data, what);
    if (status.ok()) last_.store(data, std::memory_order_relaxed);
    return status;
  }

 private:
  mutable std::atomic<const void*> last_{nullptr};
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_KNOWN_MEMORY_H_
