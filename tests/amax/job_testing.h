// Ranks of one job as threads of one process, for tests of RecipeState.
#ifndef SCALEKEEPER_TESTS_AMAX_JOB_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_JOB_TESTING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "amax/in_process_communicator.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/flaky_communicator.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {

// Ranks that each own a state of the same recipe, bound to one group.
class Job {
 public:
  Job(int size, const std::string& recipe,
      absl::Duration deadline = absl::Seconds(60))
      : Job(size, std::vector<std::string>(static_cast<size_t>(size), recipe),
            std::vector<std::vector<std::string>>(static_cast<size_t>(size),
                                                  {"m"}),
            deadline) {}
  Job(int size, const std::vector<std::string>& recipes,
      const std::vector<std::vector<std::string>>& modules,
      absl::Duration deadline = absl::Seconds(60)) {
    InProcessCommunicatorOptions options;
    options.deadline = deadline;
    group_ = CreateInProcessCommunicators(size, options);
    for (size_t r = 0; r < static_cast<size_t>(size); ++r) {
      flaky_.push_back(std::make_unique<FlakyCommunicator>(group_[r].get()));
      RecipeStateOptions state_options;
      state_options.groups["default"] = flaky_.back().get();
      states_.push_back(MakeState(recipes[r], state_options));
      for (const std::string& module : modules[r]) {
        slots_.push_back(ValueOrDie(states_.back()->AddModule(module)));
      }
    }
  }

  int size() const { return static_cast<int>(states_.size()); }
  RecipeState& state(int rank) { return *states_[static_cast<size_t>(rank)]; }
  FlakyCommunicator& flaky(int rank) {
    return *flaky_[static_cast<size_t>(rank)];
  }
  // With one module per rank.
  SlotId input(int rank) { return slots_[static_cast<size_t>(rank)].input; }
  float Scale(int rank) {
    return ValueOrDie(state(rank).Scale(input(rank), Stream{}));
  }
  void Observe(int rank, float amax) {
    scalekeeper::Observe(state(rank).View(input(rank)), FloatBits(amax));
  }
  std::vector<absl::Status> OnAll(
      const std::function<absl::Status(int)>& body) {
    std::vector<absl::Status> statuses(states_.size());
    RunRanks(size(), [&](int rank) {
      statuses[static_cast<size_t>(rank)] = body(rank);
    });
    return statuses;
  }
  std::vector<absl::Status> Freeze() {
    return OnAll([&](int rank) { return state(rank).Freeze(); });
  }
  std::vector<absl::Status> Step(const std::vector<float>& amaxes) {
    return OnAll([&](int rank) {
      const float amax = amaxes[static_cast<size_t>(rank)];
      if (amax != 0) Observe(rank, amax);
      return state(rank).EndStep(Stream{});
    });
  }

 private:
  std::vector<std::unique_ptr<Communicator>> group_;
  std::vector<std::unique_ptr<FlakyCommunicator>> flaky_;
  std::vector<std::unique_ptr<RecipeState>> states_;
  std::vector<ModuleSlots> slots_;
};

inline void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_JOB_TESTING_H_
