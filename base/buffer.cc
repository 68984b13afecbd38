#include "base/buffer.h"

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

class AlignedHostAllocator : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    void* data =
        ::operator new(bytes, std::align_val_t{kAlignment}, std::nothrow);
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("host allocation of ", bytes, " bytes failed"));
    }
    return data;
  }
  void Deallocate(void* data, size_t) override {
    ::operator delete(data, std::align_val_t{kAlignment});
  }
  Device device() const override { return Device::Host(); }
};

}  // namespace

Allocator* HostAllocator() {
  static AlignedHostAllocator* const allocator = new AlignedHostAllocator;
  return allocator;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Reset();
    allocator_ = std::exchange(other.allocator_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

absl::StatusOr<Buffer> Buffer::Allocate(Allocator* allocator, size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  SK_ASSIGN_OR_RETURN(buffer.data_, allocator->Allocate(bytes));
  buffer.allocator_ = allocator;
  buffer.size_ = bytes;
  return buffer;
}

void Buffer::Reset() {
  if (data_ != nullptr) allocator_->Deallocate(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace scalekeeper
