// Memory that is lent for a call and used again by the next one.
//
// A buffer that is lent is nobody else's until it comes back, so a call may run
// other people's code while it holds one, and that code may take buffers of its
// own. Nothing is freed before the pool is: a captured graph may still point to
// it. Sizes at least double, so that a pool soon stops to allocate.
//
// Threads: any. Must outlive its leases.
//
// Example:
//   SK_ASSIGN_OR_RETURN(BufferPool::Lease lease, pool.Take(bytes));
//   Use(lease.data());
#ifndef SCALEKEEPER_GEMM_BUFFER_POOL_H_
#define SCALEKEEPER_GEMM_BUFFER_POOL_H_

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/status_macros.h"

namespace scalekeeper {

class BufferPool {
 public:
  // Move-only; gives the buffer back when it ends.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    ~Lease() {
      if (pool_ != nullptr) pool_->GiveBack(std::move(buffer_));
    }

    void* data() { return buffer_.data(); }
    size_t size() const { return buffer_.size(); }

   private:
    friend class BufferPool;
    Lease(BufferPool* pool, Buffer buffer)
        : pool_(pool), buffer_(std::move(buffer)) {}

    BufferPool* pool_ = nullptr;
    Buffer buffer_;
  };

  // The allocator is borrowed.
  explicit BufferPool(Allocator* allocator) : allocator_(allocator) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`; the allocator's error when there is no memory.
  absl::StatusOr<Lease> Take(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->size() < bytes) continue;
      if (best == free_.end() || it->size() < best->size()) best = it;
    }
    if (best != free_.end()) {
      Buffer buffer = std::move(*best);
      free_.erase(best);
      return Lease(this, std::move(buffer));
    }
    const size_t size = std::max(bytes, 2 * largest_);
    SK_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(allocator_, size));
    largest_ = size;
    free_.reserve(++count_);  // so that giving back allocates nothing
    return Lease(this, std::move(buffer));
  }

 private:
  void GiveBack(Buffer buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(buffer));
  }

  Allocator* const allocator_;
  std::mutex mutex_;
  std::vector<Buffer> free_;
  size_t count_ = 0;  // of all buffers
  size_t largest_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_BUFFER_POOL_H_
