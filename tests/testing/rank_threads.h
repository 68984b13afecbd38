// Runs one function per rank, each in its own thread, and waits for all.
//
// Example:
//   RunRanks(4, [&](int rank) { EXPECT_THAT(states[rank]->Freeze(), IsOk());
//   });
#ifndef SCALEKEEPER_TESTS_TESTING_RANK_THREADS_H_
#define SCALEKEEPER_TESTS_TESTING_RANK_THREADS_H_

#include <functional>
#include <thread>
#include <vector>

namespace scalekeeper {

inline void RunRanks(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_RANK_THREADS_H_
