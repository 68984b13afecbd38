// A GPU without memory for the state: Freeze says how much was wanted and
// where, nothing leaks and the current device stays.
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/buffer.h"
#include "base/device_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MemoryCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EndProcessAfter(120);
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
    DieUnlessOk(CudaStatus(cudaSetDevice(0), "cudaSetDevice"));
  }
  static int CurrentDevice() {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    return device;
  }
  static size_t FreeBytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  }
};

// The caller's memory, up to `limit` bytes; counts what is out.
class LimitedAllocator : public Allocator {
 public:
  LimitedAllocator(Device device, size_t limit)
      : device_(device),
        limit_(limit),
        from_(ValueOrDie(DefaultAllocator(device))) {}
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    wanted = bytes;
    if (bytes > limit_) {
      return absl::ResourceExhaustedError("the pool is empty");
    }
    ++out;
    return from_->Allocate(bytes);
  }
  void Deallocate(void* data, size_t bytes) override {
    --out;
    from_->Deallocate(data, bytes);
  }
  Device device() const override { return device_; }

  size_t wanted = 0;
  int out = 0;

 private:
  const Device device_;
  const size_t limit_;
  Allocator* const from_;
};

TEST_F(MemoryCudaTest, AnAllocatorThatRefusesIsReported) {
  RecipeStateOptions options;
  options.device = Device::Cuda(GpuCount() - 1);
  LimitedAllocator empty(options.device, 0);
  options.allocator = &empty;
  {
    OneModule m(DelayedRecipe("amax_history_len: 1024"), options);
    const absl::Status status = m.Freeze();
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("amax state of 3 slots"),
                               HasSubstr(absl::StrCat(empty.wanted, " bytes")),
                               HasSubstr(Name(options.device)),
                               HasSubstr("the pool is empty"))));
    EXPECT_GT(empty.wanted, 3u * 1024u * 4u);
    EXPECT_FALSE(m.state->frozen());
  }
  EXPECT_EQ(empty.out, 0);
  EXPECT_EQ(CurrentDevice(), 0);
  // The same state fits a pool that has the memory, and gives it back.
  LimitedAllocator pool(options.device, empty.wanted);
  options.allocator = &pool;
  {
    OneModule m(DelayedRecipe("amax_history_len: 1024"), options);
    ASSERT_THAT(m.Freeze(), IsOk());
    EXPECT_EQ(pool.out, 1);
  }
  EXPECT_EQ(pool.out, 0);
  EXPECT_EQ(CurrentDevice(), 0);
}

TEST_F(MemoryCudaTest, AGpuThatIsFullIsReported) {
  // About 2.4 GB of windows.
  constexpr int kModules = 2000;
  const auto freeze = [&] {
    RecipeStateOptions options;
    options.device = Device::Cuda(0);
    auto state = MakeState(DelayedRecipe("amax_history_len: 65536"), options);
    for (int i = 0; i < kModules; ++i) {
      (void)ValueOrDie(state->AddModule(absl::StrCat("m", i)));
    }
    return state->Freeze();
  };
  {
    EXPECT_THAT(FrozenModule(DelayedRecipe("")).Step(1), IsOk());
  }
  // All but 1 GiB.
  constexpr size_t kLeft = size_t{1} << 30;
  void* filling = nullptr;
  ASSERT_EQ(cudaMalloc(&filling, FreeBytes() - kLeft), cudaSuccess);
  const size_t before = FreeBytes();
  ASSERT_LT(before, 2 * kLeft);
  EXPECT_THAT(freeze(), StatusIs(absl::StatusCode::kResourceExhausted,
                                 AllOf(HasSubstr("amax state of 6000 slots"),
                                       HasSubstr("bytes on cuda:0"),
                                       HasSubstr("cudaMalloc"),
                                       HasSubstr("out of memory"))));
  EXPECT_EQ(FreeBytes(), before) << "nothing leaks";
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "no error is left behind";
  EXPECT_EQ(CurrentDevice(), 0);
  ASSERT_EQ(cudaFree(filling), cudaSuccess);
  EXPECT_THAT(freeze(), IsOk()) << "with the memory there";
  EXPECT_EQ(CurrentDevice(), 0);
}

}  // namespace
}  // namespace scalekeeper
