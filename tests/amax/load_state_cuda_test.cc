// Whole states between a GPU and the host, around graphs; scales of a moment on
// the device.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/checkpoint.h"
#include "amax/load_state.h"
#include "amax/scale_snapshot.h"
#include "base/cuda/handles_cuda.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

constexpr int kModules = 50;

class LoadStateCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EndProcessAfter(120);
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
  }
};

std::unique_ptr<RecipeState> FrozenOn(Device device) {
  RecipeStateOptions options;
  options.device = device;
  auto state = MakeState(
      "defaults { all { delayed { amax_history_len: 5 } } input { format: E4M3 "
      "delayed { amax_history_len: 7 margin: 1 } } grad { format: E5M2 delayed "
      "{ amax_history_len: 3 amax_compute_algo: MOST_RECENT non_finite_amax: "
      "BACK_OFF } } } "
      "phase { from_step: 6 input { delayed { amax_history_len: 4 } } }",
      options);
  for (int i = 0; i < kModules; ++i) {
    EXPECT_THAT(state->AddModule(absl::StrCat("layers.", i)), IsOk());
  }
  EXPECT_THAT(state->Freeze(), IsOk());
  return state;
}

void ObserveAll(RecipeState* state, int64_t step) {
  std::mt19937 random(static_cast<unsigned>(step));
  for (int32_t slot = 0; slot < 3 * kModules; ++slot) {
    const bool inf = random() % 16 == 0;
    const auto bits = static_cast<uint32_t>(random() % 0x7F800000u);
    SetAmax(*state, {slot}, inf ? 0x7F800000u : bits, Stream{});
  }
}

void Steps(RecipeState* state, int count) {
  for (int i = 0; i < count; ++i) {
    ObserveAll(state, state->step());
    ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  }
}

StateImage Save(const RecipeState& state) {
  return ValueOrDie(SaveState(state, Stream{}));
}

std::string Bytes(const RecipeState& state) {
  return ValueOrDie(EncodeState(Save(state)));
}

TEST_F(LoadStateCudaTest, GoesOnFromGpuToHostAndBack) {  // J9
  for (int stop : {0, 3, 6, 8}) {
    auto whole = FrozenOn(Device::Host());
    auto gpu = FrozenOn(Device::Cuda(0));
    Steps(whole.get(), stop);
    Steps(gpu.get(), stop);
    ObserveAll(whole.get(), 99);
    ObserveAll(gpu.get(), 99);
    ASSERT_EQ(Bytes(*gpu), Bytes(*whole)) << "after " << stop;
    auto host = FrozenOn(Device::Host());
    auto other_gpu = FrozenOn(Device::Cuda(0));
    for (RecipeState* state : {host.get(), other_gpu.get()}) {
      ASSERT_THAT(LoadState(Save(*gpu), LoadOptions(), Stream{}, state),
                  IsOk());
      Steps(state, 5);
    }
    Steps(whole.get(), 5);
    EXPECT_EQ(Bytes(*host), Bytes(*whole)) << "stopped at " << stop;
    EXPECT_EQ(Bytes(*other_gpu), Bytes(*whole)) << "stopped at " << stop;
  }
}

TEST_F(LoadStateCudaTest, WarmUpsOfAGraphAreUndoneAndTheGraphStaysGood) {
  auto state = FrozenOn(Device::Cuda(0));
  auto host = FrozenOn(Device::Host());
  Steps(state.get(), 2);
  Steps(host.get(), 2);
  const std::string before = Bytes(*state);
  const CudaStream stream = ValueOrDie(CreateCudaStream());
  const StateImage snapshot =
      ValueOrDie(SnapshotObservations(*state, Stream{stream.get()}));
  ObserveAll(state.get(), 50);
  ASSERT_THAT(state->EndStep(Stream{stream.get()}), IsOk());
  const CudaGraphExec graph = Capture(stream, [&] {
    EXPECT_THAT(state->EndStep(Stream{stream.get()}), IsOk());
  });
  ASSERT_THAT(Restore(snapshot, Stream{stream.get()}, state.get()), IsOk());
  EXPECT_EQ(Bytes(*state), before);
  ObserveAll(state.get(), 2);
  ASSERT_EQ(cudaGraphLaunch(graph.get(), stream.get()), cudaSuccess);
  const absl::Status checked = state->Check(Stream{stream.get()});
  EXPECT_TRUE(checked.ok() || checked.code() == absl::StatusCode::kOutOfRange)
      << checked;
  Steps(host.get(), 1);
  const StateImage a = Save(*state), b = Save(*host);
  EXPECT_EQ(a.step, 3);
  for (size_t i = 0; i < a.slots.size(); ++i) {
    EXPECT_EQ(a.slots[i].delayed->scale_bits, b.slots[i].delayed->scale_bits);
    EXPECT_EQ(a.slots[i].delayed->window, b.slots[i].delayed->window);
  }
}

TEST_F(LoadStateCudaTest, ASnapshotHoldsTheDeviceWordsThatWere) {  // L5
  auto state = FrozenOn(Device::Cuda(0));
  Steps(state.get(), 2);
  const SlotId slot = {4};
  const float scale = ValueOrDie(state->Scale(slot, Stream{}));
  ScaleSnapshot snapshot = ValueOrDie(ScaleSnapshot::Take(*state, Stream{}));
  const SlotView kept = snapshot.View(slot);
  SetAmax(*state, slot, FloatBits(1e30f), Stream{});
  ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  EXPECT_NE(ValueOrDie(state->Scale(slot, Stream{})), scale);
  EXPECT_EQ(ReadDevice(state->device(), kept.scale, Stream{}), scale);
  EXPECT_EQ(ReadDevice(state->device(), kept.scale_inv, Stream{}),
            1.0f / scale);
  ASSERT_THAT(snapshot.Retake(*state, Stream{}), IsOk());
  EXPECT_EQ(ReadDevice(state->device(), kept.scale, Stream{}),
            ValueOrDie(state->Scale(slot, Stream{})));
}

}  // namespace
}  // namespace scalekeeper
