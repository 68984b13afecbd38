// WorkerPool: threads that share the indices of a loop.
//
// Threads: ParallelFor from one at a time. It returns when every call has
// returned; what calls wrote is visible to the caller then.
//
// Example:
//   WorkerPool pool(4);
//   pool.ParallelFor(slots, [&](size_t i) { work(i); });
#ifndef SCALEKEEPER_REPLAY_WORKER_POOL_H_
#define SCALEKEEPER_REPLAY_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace scalekeeper {

class WorkerPool {
 public:
  // `threads` >= 1, the caller's own among them.
  explicit WorkerPool(int threads);
  ~WorkerPool();

  // Calls body(i) for i in 0..count-1, each once, in any order.
  void ParallelFor(size_t count, const std::function<void(size_t)>& body);

 private:
  void Work();
  // Takes indices until none is left.
  void Drain(std::unique_lock<std::mutex>* lock);

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(size_t)>* body_ = nullptr;
  size_t next_ = 0;
  size_t count_ = 0;
  size_t running_ = 0;
  uint64_t round_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_WORKER_POOL_H_
