#include "replay/worker_pool.h"

#include <atomic>
#include <vector>

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

TEST(WorkerPoolTest, CallsEachIndexOnceAndWaitsForAll) {
  for (const int threads : {1, 2, 7}) {
    WorkerPool pool(threads);
    for (const size_t count : {0, 1, 2, 100, 1000}) {
      std::vector<int> calls(count);
      pool.ParallelFor(count, [&](size_t i) { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1));
    }
  }
}

TEST(WorkerPoolTest, ThreadsShareTheWork) {
  WorkerPool pool(2);
  // Each call waits for the other: one thread alone would not come back.
  std::atomic<int> arrived{0};
  pool.ParallelFor(2, [&](size_t) {
    ++arrived;
    while (arrived < 2) {
    }
  });
  EXPECT_EQ(arrived, 2);
}

}  // namespace
}  // namespace scalekeeper
