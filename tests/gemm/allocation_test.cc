// Products allocate nothing after the first of their size: every operator new
// of this program is counted.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "gemm/grouped_matmul.h"
#include "gtest/gtest.h"
#include "tests/gemm/scaled_testing.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace {

std::atomic<int64_t> allocations{0};

void* CountedAllocation(size_t bytes) {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = CountedAllocation(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace scalekeeper {
namespace {

constexpr int kExperts = 40;  // more than fit on a stack

class AllocationTest : public ::testing::Test {
 protected:
  AllocationTest() {
    for (int e = 0; e < kExperts; ++e) {
      splits_.push_back(e % 3);
      tokens_ += e % 3;
      weights_.push_back(
          *ScaledOperand(kCurrentKind, 8, 16, 10).Make(Device::Host()));
      outputs_.push_back(TestTensor(DType::kF32, 8, 8));
    }
    for (int e = 0; e < kExperts; ++e) {
      operands_.push_back(weights_[static_cast<size_t>(e)]);
      views_.push_back(outputs_[static_cast<size_t>(e)].view());
    }
  }

  std::vector<int64_t> splits_;
  int64_t tokens_ = 0;
  std::vector<QuantizedTensor> weights_;
  std::vector<MatmulOperand> operands_;
  std::vector<TestTensor> outputs_;
  std::vector<TensorView> views_;
};

TEST_F(AllocationTest, GroupedMatmul) {
  const QuantizedTensor x =
      *ScaledOperand(kCurrentKind, tokens_, 16, 1).Make(Device::Host());
  TestTensor out(DType::kF32, tokens_, 8);
  MatmulOptions options;
  options.transb = true;
  const auto multiply = [&] {
    return GroupedMatmul(x, operands_, out.view(), splits_, options, Stream());
  };
  int64_t before = allocations;
  ASSERT_THAT(multiply(), IsOk());
  EXPECT_GT(allocations, before);  // the counter counts
  before = allocations;
  const absl::Status status = multiply();
  EXPECT_EQ(allocations, before);
  EXPECT_THAT(status, IsOk());
}

TEST_F(AllocationTest, GroupedMatmulWgrad) {
  const QuantizedTensor x = *ScaledOperand(kCurrentKind, 8, tokens_, 1)
                                 .Make(Device::Host(), Held::kColumnWise);
  MatmulOptions options;
  options.transa = true;
  const auto multiply = [&] {
    return GroupedMatmulWgrad(x, x, views_, splits_, options, Stream());
  };
  ASSERT_THAT(multiply(), IsOk());
  const int64_t before = allocations;
  const absl::Status status = multiply();
  EXPECT_EQ(allocations, before);
  EXPECT_THAT(status, IsOk());
}

TEST_F(AllocationTest, Matmul) {
  const QuantizedTensor x =
      *ScaledOperand(kMxfp8Kind, 8, 64, 1).Make(Device::Host());
  TestTensor out(DType::kF32, 8, 8);
  MatmulOptions options;
  options.transb = true;
  const auto multiply = [&] {
    return Matmul(x, x, out.view(), options, Stream());
  };
  ASSERT_THAT(multiply(), IsOk());
  const int64_t before = allocations;
  const absl::Status status = multiply();
  EXPECT_EQ(allocations, before);
  EXPECT_THAT(status, IsOk());
}

}  // namespace
}  // namespace scalekeeper
