// Two ranks on two GPUs of one process, each driven by its own thread.
#ifndef SCALEKEEPER_TESTS_AMAX_NCCL_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_NCCL_TESTING_H_

#include <stdlib.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "amax/communicator.h"
#include "amax/nccl_communicator.h"
#include "amax/recipe_state.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "gtest/gtest.h"
#include "nccl.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {

// Needs two GPUs; the whole program ends by itself.
class TwoGpuTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/1);
  }
  void SetUp() override {
    EndProcessAfter(180);  // per test
    if (GpuCount() < 2) GTEST_SKIP() << "needs two GPUs";
  }
};

// One communicator per GPU 0..size-1, with a deadline of Within(`deadline`).
inline std::vector<std::unique_ptr<Communicator>> MakeNcclGroup(
    int size, absl::Duration deadline) {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::unique_ptr<Communicator>> group(static_cast<size_t>(size));
  NcclCommunicatorOptions options;
  options.deadline = Within(deadline);
  RunRanks(size, [&](int rank) {
    group[static_cast<size_t>(rank)] =
        ValueOrDie(CreateNcclCommunicator(id, rank, size, rank, options));
  });
  return group;
}

// Two states of one recipe with modules "m0", "m1", ... on GPUs 0 and 1.
class TwoRanks {
 public:
  TwoRanks(const std::string& recipe, Exchange exchange,
           absl::Duration deadline = absl::Seconds(20), int modules = 1)
      : TwoRanks({recipe, recipe}, exchange, deadline, modules) {}
  TwoRanks(const std::vector<std::string>& recipes, Exchange exchange,
           absl::Duration deadline, int modules)
      : group_(MakeNcclGroup(2, deadline)) {
    for (int r = 0; r < 2; ++r) {
      const CudaDeviceGuard guard = ValueOrDie(CudaDeviceGuard::Enter(r));
      streams_.push_back(ValueOrDie(CreateCudaStream()));
      RecipeStateOptions options;
      options.device = Device::Cuda(r);
      options.groups["default"] = group_[static_cast<size_t>(r)].get();
      options.exchange = exchange;
      states_.push_back(MakeState(recipes[static_cast<size_t>(r)], options));
      for (int m = 0; m < modules; ++m) {
        const ModuleSlots slots =
            ValueOrDie(states_.back()->AddModule("m" + std::to_string(m)));
        if (r == 0) slots_.push_back(slots.input);
      }
    }
  }
  // Each rank's state ends before its communicator; one rank after the other.
  ~TwoRanks() {
    states_.clear();
    RunRanks(2, [&](int rank) { group_[static_cast<size_t>(rank)].reset(); });
  }

  // Of one rank, while the other's is still there.
  void Destroy(int rank) { states_[static_cast<size_t>(rank)].reset(); }
  RecipeState& state(int rank) { return *states_[static_cast<size_t>(rank)]; }
  Communicator& communicator(int rank) {
    return *group_[static_cast<size_t>(rank)];
  }
  const std::vector<SlotId>& slots() const { return slots_; }
  Stream stream(int rank) const {
    return AsStream(streams_[static_cast<size_t>(rank)]);
  }
  const CudaStream& cuda_stream(int rank) const {
    return streams_[static_cast<size_t>(rank)];
  }

  std::vector<absl::Status> OnBoth(
      const std::function<absl::Status(int)>& body) {
    std::vector<absl::Status> statuses(2);
    RunRanks(2, [&](int rank) {
      // What a program of one rank per GPU has done.
      (void)cudaSetDevice(rank);
      statuses[static_cast<size_t>(rank)] = body(rank);
    });
    return statuses;
  }
  void Freeze() {
    for (const absl::Status& status :
         OnBoth([&](int rank) { return state(rank).Freeze(); })) {
      ASSERT_THAT(status, IsOk());
    }
  }
  void Observe(int rank, float amax, size_t slot = 0) {
    SetAmax(state(rank), slots_[slot], FloatBits(amax), stream(rank));
  }
  // Both ranks observe into slot 0 and end the step.
  std::vector<absl::Status> Step(float amax_0, float amax_1) {
    return OnBoth([&](int rank) {
      Observe(rank, rank == 0 ? amax_0 : amax_1);
      return state(rank).EndStep(stream(rank));
    });
  }
  float Scale(int rank, size_t slot = 0) {
    return ValueOrDie(state(rank).Scale(slots_[slot], stream(rank)));
  }

 private:
  std::vector<std::unique_ptr<Communicator>> group_;
  std::vector<CudaStream> streams_;
  std::vector<std::unique_ptr<RecipeState>> states_;
  std::vector<SlotId> slots_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_NCCL_TESTING_H_
