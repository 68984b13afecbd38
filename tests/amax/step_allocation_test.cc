// A step of a state in host memory allocates nothing from the heap.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "amax/in_process_communicator.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace {

std::atomic<int64_t> allocations{0};

void* Allocate(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) std::abort();
  return data;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }

namespace scalekeeper {
namespace {

TEST(AllocationCounterTest, ItCounts) {
  const int64_t before = allocations;
  const auto owned = std::make_unique<std::string>(100, 'x');
  EXPECT_GE(allocations, before + 2);
}

class StepAllocationTest : public ::testing::TestWithParam<std::string> {};

std::string NameOf(const ::testing::TestParamInfo<std::string>& info) {
  static constexpr const char* kNames[] = {"EveryStep", "Interval", "Stale"};
  return kNames[info.index];
}

INSTANTIATE_TEST_SUITE_P(Updates, StepAllocationTest,
                         ::testing::Values("", "update { interval: 3 }",
                                           "update { staleness: 1 }"),
                         NameOf);

TEST_P(StepAllocationTest, AStepAllocatesNothingAfterTheFirstOnes) {
  const auto group = CreateInProcessCommunicators(1);
  RecipeStateOptions options;
  options.groups["default"] = group[0].get();
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 4", GetParam()),
                             std::move(options));
  for (int step = 0; step < 6; ++step) ASSERT_THAT(m.Step(8), IsOk());
  const SlotView words = m.state->View(m.slots.input);
  uint32_t skip = 0;
  const int64_t before = allocations;
  bool ok = true;
  for (int step = 0; step < 12; ++step) {
    skip = step % 4 == 3 ? 1 : 0;
    Observe(words, FloatBits(static_cast<float>(step + 1)));
    ok = m.state->EndStep(Stream{}, &skip).ok() && ok;
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace scalekeeper
