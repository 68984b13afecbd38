// A build with CUDA on a machine that has no GPU: every way to one is a Status
// that names the device that was asked for.
#include "amax/nccl_launcher.h"
#include "amax/recipe_state.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/device_memory.h"
#include "cuda_runtime_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

class NoGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
      GTEST_SKIP() << "needs a machine without a GPU";
    }
  }
};

// FailedPrecondition: "device cuda:0: no CUDA-capable device is detected", or
// that there is no driver.
template <typename T>
void ExpectNamesTheDevice(const T& status) {
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("device cuda:0: ")));
}

TEST_F(NoGpuTest, AnAllocator) {
  ExpectNamesTheDevice(DefaultAllocator(Device::Cuda(0)));
}

TEST_F(NoGpuTest, TheCurrentDevice) {
  ExpectNamesTheDevice(CudaDeviceGuard::Enter(0));
}

TEST_F(NoGpuTest, AmaxState) {
  auto recipe = Recipe::Load("delayed_hybrid");
  ASSERT_THAT(recipe, IsOk());
  RecipeStateOptions options;
  options.device = Device::Cuda(0);
  ExpectNamesTheDevice(RecipeState::Create(*recipe, options));
}

TEST_F(NoGpuTest, ALaunchersRank) {
  LauncherVariables job;
  const auto made = CreateNcclCommunicatorFromLauncher(job);
  ExpectNamesTheDevice(made);
  EXPECT_THAT(made, StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("LOCAL_RANK: got 0")));
}

}  // namespace
}  // namespace scalekeeper
