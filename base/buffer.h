// Owned memory on a device, from a caller's allocator or the default one.
//
// An Allocator must be usable from every thread that creates or destroys
// Buffers, and must outlive them. Allocate returns memory aligned to 256 bytes,
// uninitialized, or a Status (ResourceExhausted when there is none).
//
// Example:
//   SK_ASSIGN_OR_RETURN(Buffer codes, Buffer::Allocate(HostAllocator(), 4096));
//   std::memset(codes.data(), 0, codes.size());
#ifndef SCALEKEEPER_BASE_BUFFER_H_
#define SCALEKEEPER_BASE_BUFFER_H_

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "base/device.h"

namespace scalekeeper {

class Allocator {
 public:
  static constexpr size_t kAlignment = 256;  // bytes

  virtual ~Allocator() = default;

  // `bytes` > 0.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  virtual void Deallocate(void* data, size_t bytes) = 0;
  virtual Device device() const = 0;
};

// The process-wide host allocator.
Allocator* HostAllocator();

// Move-only owner of one allocation; an empty Buffer has size 0 and data null.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { Reset(); }

  // `bytes` of uninitialized memory; an empty Buffer for 0. The allocator is
  // borrowed and must outlive the Buffer.
  static absl::StatusOr<Buffer> Allocate(Allocator* allocator, size_t bytes);

  void* data() { return data_; }
  const void* data() const { return data_; }
  template <typename T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  size_t size() const { return size_; }  // bytes
  // Null for an empty Buffer.
  Allocator* allocator() const { return allocator_; }

 private:
  void Reset();

  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_BUFFER_H_
