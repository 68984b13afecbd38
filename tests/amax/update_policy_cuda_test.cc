// The recipe's update { interval, staleness } on a GPU: after every step the
// scales are those of the host, eager and in CUDA graphs.
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

std::string RecipeOf(int interval, int staleness) {
  return DelayedRecipe("amax_history_len: 4",
                       absl::StrCat("update { interval: ", interval,
                                    " staleness: ", staleness, " }"));
}

// One state on the host, one on the GPU, and the GPU's flag.
struct Twins {
  explicit Twins(const std::string& recipe)
      : host(FrozenModule(recipe)),
        gpu(FrozenModule(recipe, OnGpu())),
        stream(ValueOrDie(CreateCudaStream())),
        flag(Device::Cuda(0), 1) {}

  static RecipeStateOptions OnGpu() {
    RecipeStateOptions options;
    options.device = Device::Cuda(0);
    return options;
  }
  void Observe(float amax) {
    host.Observe(amax);
    // The maximum of what the slot has observed since the last update.
    SetAmax(*gpu.state, gpu.slots.input,
            *host.state->View(host.slots.input).amax, AsStream(stream));
  }
  void EndStepOnHost(bool skip) {
    const uint32_t word = skip ? 1 : 0;
    ASSERT_THAT(host.state->EndStep(Stream{}, &word), IsOk());
  }
  void ExpectEqual() {
    EXPECT_EQ(ValueOrDie(gpu.state->Scale(gpu.slots.input, AsStream(stream))),
              host.Scale());
    EXPECT_EQ(ValueOrDie(gpu.state->Window(gpu.slots.input, AsStream(stream))),
              host.Window());
  }

  OneModule host, gpu;
  const CudaStream stream;
  DeviceWords flag;
};

class UpdatePolicyCudaTest
    : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void SetUp() override {
    EndProcessAfter(120);
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
  }
};

TEST_P(UpdatePolicyCudaTest, EagerStepsGiveTheHostsScales) {
  const auto [interval, staleness] = GetParam();
  Twins twins(RecipeOf(interval, staleness));
  std::mt19937 random(3);
  for (int step = 0; step < 120; ++step) {
    const uint32_t kind = random() % 16;
    const bool skip = random() % 8 == 0;
    if (kind != 0) {
      const float amax = static_cast<float>(random() % 4096) / 64.0f;
      twins.Observe(kind == 1 ? amax / 0.0f : amax);
    }
    twins.flag.Write({skip ? 1u : 0u});
    twins.EndStepOnHost(skip);
    ASSERT_THAT(
        twins.gpu.state->EndStep(AsStream(twins.stream), twins.flag.data()),
        IsOk());
    twins.ExpectEqual();
    ASSERT_EQ(twins.gpu.state->step(), twins.host.state->step());
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
  EXPECT_EQ(twins.gpu.state->counters().updates,
            twins.host.state->counters().updates);
}

// A graph of a whole interval, after one that ran eagerly.
TEST_P(UpdatePolicyCudaTest, ReplayedGraphsGiveTheHostsScales) {
  const auto [interval, staleness] = GetParam();
  Twins twins(RecipeOf(interval, staleness));
  const Stream stream = AsStream(twins.stream);
  twins.Observe(8);
  for (int i = 0; i < interval; ++i) {
    twins.EndStepOnHost(false);
    ASSERT_THAT(twins.gpu.state->EndStep(stream), IsOk());
  }
  ASSERT_THAT(twins.gpu.state->JoinReduction(stream), IsOk());
  const CudaGraphExec graph = Capture(twins.stream, [&, k = interval] {
    for (int i = 0; i < k; ++i) {
      EXPECT_THAT(twins.gpu.state->EndStep(stream, twins.flag.data()), IsOk());
    }
    EXPECT_THAT(twins.gpu.state->JoinReduction(stream), IsOk());
  });
  for (int replay = 0; replay < 50; ++replay) {
    const bool skip = replay % 5 == 3;
    twins.Observe(static_cast<float>(1 + replay * 7 % 13));
    twins.flag.Write({skip ? 1u : 0u});
    for (int i = 0; i < interval; ++i) twins.EndStepOnHost(skip);
    ASSERT_EQ(cudaGraphLaunch(graph.get(), twins.stream.get()), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(twins.stream.get()), cudaSuccess);
    twins.ExpectEqual();
    ASSERT_FALSE(HasFailure()) << "replay " << replay;
  }
  EXPECT_THAT(twins.gpu.state->Check(stream), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Policies, UpdatePolicyCudaTest,
                         ::testing::Combine(::testing::Values(1, 3),
                                            ::testing::Values(0, 1)));

TEST_P(UpdatePolicyCudaTest, ADiscardedStepIsTheHosts) {
  const auto [interval, staleness] = GetParam();
  Twins twins(RecipeOf(interval, staleness));
  for (int step = 0; step < 12; ++step) {
    twins.Observe(static_cast<float>(1 + step * 5 % 7));
    if (step % 4 == 1) {
      ASSERT_THAT(twins.host.state->DiscardStep(Stream{}), IsOk());
      ASSERT_THAT(twins.gpu.state->DiscardStep(AsStream(twins.stream)), IsOk());
    } else {
      twins.EndStepOnHost(false);
      ASSERT_THAT(twins.gpu.state->EndStep(AsStream(twins.stream)), IsOk());
    }
    twins.ExpectEqual();
  }
}

class UpdateFaultsCudaTest : public UpdatePolicyCudaTest {};

TEST_P(UpdateFaultsCudaTest, AGraphOfAnotherStepOfTheIntervalIsReported) {
  Twins twins(RecipeOf(2, 0));
  const Stream stream = AsStream(twins.stream);
  const CudaGraphExec counts = Capture(twins.stream, [&] {
    EXPECT_THAT(twins.gpu.state->EndStep(stream), IsOk());
  });
  ASSERT_EQ(cudaGraphLaunch(counts.get(), twins.stream.get()), cudaSuccess);
  EXPECT_THAT(twins.gpu.state->Check(stream), IsOk()) << "step 0 only counts";
  ASSERT_EQ(cudaGraphLaunch(counts.get(), twins.stream.get()), cudaSuccess);
  EXPECT_THAT(twins.gpu.state->Check(stream),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("update.interval 2")));
}

TEST_P(UpdateFaultsCudaTest, AStaleGraphNeedsAStepThatWasJoined) {
  Twins twins(RecipeOf(1, 1));
  const Stream stream = AsStream(twins.stream);
  const auto refused = [&] {
    (void)Capture(twins.stream, [&] {
      EXPECT_THAT(twins.gpu.state->EndStep(stream),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           HasSubstr("JoinReduction")));
    });
  };
  refused();
  ASSERT_THAT(twins.gpu.state->EndStep(stream), IsOk());
  refused();
}

INSTANTIATE_TEST_SUITE_P(Once, UpdateFaultsCudaTest,
                         ::testing::Values(std::make_tuple(1, 0)));

}  // namespace
}  // namespace scalekeeper
