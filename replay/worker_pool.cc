#include "replay/worker_pool.h"

namespace scalekeeper {

WorkerPool::WorkerPool(int threads) {
  for (int i = 1; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Drain(std::unique_lock<std::mutex>* lock) {
  while (next_ < count_) {
    const size_t index = next_++;
    ++running_;
    const std::function<void(size_t)>& body = *body_;
    lock->unlock();
    body(index);
    lock->lock();
    --running_;
  }
  if (running_ == 0) done_.notify_all();
}

void WorkerPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t seen = 0;
  for (;;) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    Drain(&lock);
  }
}

void WorkerPool::ParallelFor(size_t count,
                             const std::function<void(size_t)>& body) {
  std::unique_lock<std::mutex> lock(mutex_);
  body_ = &body;
  next_ = 0;
  count_ = count;
  ++round_;
  start_.notify_all();
  Drain(&lock);
  done_.wait(lock, [&] { return next_ == count_ && running_ == 0; });
}

}  // namespace scalekeeper
