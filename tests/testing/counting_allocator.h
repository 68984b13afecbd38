// An allocator of host memory that counts what it hands out and takes back, and
// can run dry. Test only.
#ifndef SCALEKEEPER_TESTS_TESTING_COUNTING_ALLOCATOR_H_
#define SCALEKEEPER_TESTS_TESTING_COUNTING_ALLOCATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"

namespace scalekeeper {

class CountingAllocator : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (dry) return absl::ResourceExhaustedError("dry");
    ++allocations;
    held += bytes;
    return HostAllocator()->Allocate(bytes);
  }
  void Deallocate(void* data, size_t bytes) override {
    ++frees;
    held -= bytes;
    HostAllocator()->Deallocate(data, bytes);
  }
  Device device() const override { return Device::Host(); }

  std::atomic<int64_t> allocations = 0;
  std::atomic<int64_t> frees = 0;
  std::atomic<size_t> held = 0;  // bytes
  bool dry = false;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_COUNTING_ALLOCATOR_H_
