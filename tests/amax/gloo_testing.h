// Groups of Gloo communicators for tests, on this machine alone.
#ifndef SCALEKEEPER_TESTS_AMAX_GLOO_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_GLOO_TESTING_H_

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "amax/gloo_communicator.h"
#include "gtest/gtest.h"
#include "tests/testing/rank_threads.h"

namespace scalekeeper {

// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = ::testing::TempDir() + "/scalekeeper.XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline GlooCommunicatorOptions LocalGloo(absl::Duration deadline) {
  GlooCommunicatorOptions options;
  options.name = "world";
  options.deadline = deadline;
  options.address = "127.0.0.1";
  return options;
}

// All ranks in this process.
inline std::vector<std::unique_ptr<Communicator>> MakeGlooGroup(
    int size, absl::Duration deadline) {
  const TemporaryDirectory directory;
  std::vector<std::unique_ptr<Communicator>> group(static_cast<size_t>(size));
  RunRanks(size, [&](int rank) {
    auto made = CreateGlooCommunicatorFromFiles(directory.path(), rank, size,
                                                LocalGloo(deadline));
    if (!made.ok()) {
      ADD_FAILURE() << made.status();
      std::abort();
    }
    group[static_cast<size_t>(rank)] = *std::move(made);
  });
  return group;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_GLOO_TESTING_H_
