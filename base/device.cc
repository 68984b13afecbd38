#include "base/device.h"

#include "absl/strings/str_cat.h"

namespace scalekeeper {

std::string Name(const Device& device) {
  if (device.kind == DeviceKind::kHost) return "host";
  return absl::StrCat("cuda:", device.index);
}

}  // namespace scalekeeper
