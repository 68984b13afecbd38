// Where memory lies and where work is queued.
#ifndef SCALEKEEPER_BASE_DEVICE_H_
#define SCALEKEEPER_BASE_DEVICE_H_

#include <string>

namespace scalekeeper {

enum class DeviceKind { kHost, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kHost;
  int index = 0;  // CUDA ordinal; 0 on the host

  static Device Host() { return {}; }
  static Device Cuda(int index) { return {DeviceKind::kCuda, index}; }

  friend bool operator==(const Device& a, const Device& b) {
    return a.kind == b.kind && a.index == b.index;
  }
  friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }
};

// "host", "cuda:1".
std::string Name(const Device& device);

// A queue of work, the caller's: a cudaStream_t on CUDA. On the host it is
// ignored and every call has finished when it returns.
struct Stream {
  void* handle = nullptr;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_DEVICE_H_
