// A real training run (tests/data/traces) on a GPU: after every step the scales
// are, bit for bit, those of the host.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/amax/trace_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

class TraceCudaTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    EndProcessAfter(170);
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
  }
};

struct Twin {
  std::unique_ptr<RecipeState> state;
  std::vector<SlotId> slots;
};

Twin MakeTwin(Device device, const std::string& recipe, const Trace& trace) {
  RecipeStateOptions options;
  options.device = device;
  Twin twin;
  twin.state = MakeState(recipe, options);
  for (size_t i = 0; i < trace.slots.size(); i += 3) {
    const ModuleSlots added = ValueOrDie(twin.state->AddModule(
        trace.slots[i].substr(0, trace.slots[i].find('/'))));
    for (Role role : kRoles) twin.slots.push_back(added.slot(role));
  }
  EXPECT_THAT(twin.state->Freeze(), IsOk());
  return twin;
}

TEST_P(TraceCudaTest, EveryScaleOfEveryStepIsTheHosts) {
  const Device cuda = Device::Cuda(0);
  const Trace trace = ReadTrace("traces/amax_rank0.csv");
  ASSERT_EQ(trace.slots.size(), 99u);
  ASSERT_EQ(trace.amaxes.size(), 1000u);
  const std::string recipe =
      absl::StrCat("defaults { all { format: E4M3 delayed { ", GetParam(),
                   " } } grad { format: E5M2 delayed { ", GetParam(), " } } }");
  const Twin host = MakeTwin(Device::Host(), recipe, trace);
  const Twin gpu = MakeTwin(cuda, recipe, trace);
  const CudaStream stream = ValueOrDie(CreateCudaStream());
  // Scales and amaxes lie together: one copy each.
  const float* scales = gpu.state->View(gpu.slots[0]).scale;
  uint32_t* amaxes = gpu.state->View(gpu.slots[0]).amax;
  for (SlotId slot : gpu.slots) {
    scales = std::min<const float*>(scales, gpu.state->View(slot).scale);
    amaxes = std::min(amaxes, gpu.state->View(slot).amax);
  }
  std::vector<float> scale(gpu.slots.size());
  std::vector<uint32_t> amax(gpu.slots.size());
  for (size_t step = 0; step < trace.amaxes.size(); ++step) {
    for (size_t i = 0; i < gpu.slots.size(); ++i) {
      const uint32_t bits = FloatBits(trace.amaxes[step][i]);
      Observe(host.state->View(host.slots[i]), bits);
      amax[static_cast<size_t>(gpu.state->View(gpu.slots[i]).amax - amaxes)] =
          bits;
    }
    DieUnlessOk(CopyFromHost(cuda, amaxes, amax.data(), amax.size() * 4,
                             AsStream(stream)));
    ASSERT_THAT(host.state->EndStep(Stream{}), IsOk());
    ASSERT_THAT(gpu.state->EndStep(AsStream(stream)), IsOk());
    DieUnlessOk(CopyToHost(cuda, scale.data(), scales, scale.size() * 4,
                           AsStream(stream)));
    for (size_t i = 0; i < gpu.slots.size(); ++i) {
      const float* const place = gpu.state->View(gpu.slots[i]).scale;
      ASSERT_EQ(FloatBits(scale[static_cast<size_t>(place - scales)]),
                FloatBits(*host.state->View(host.slots[i]).scale))
          << trace.slots[i] << " step " << step;
    }
  }
  for (size_t i = 0; i < gpu.slots.size(); ++i) {
    ASSERT_EQ(ValueOrDie(gpu.state->Window(gpu.slots[i], AsStream(stream))),
              ValueOrDie(host.state->Window(host.slots[i], Stream{})));
  }
  EXPECT_THAT(gpu.state->Check(AsStream(stream)), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Windows, TraceCudaTest,
                         ::testing::Values("amax_history_len: 16",
                                           "amax_history_len: 1024"));

}  // namespace
}  // namespace scalekeeper
