// Usages: which copies a tensor has, how one is made from the other, and how
// those of several ranks are put together.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quantizer/all_gather.h"
#include "quantizer/linear_usages.h"
#include "quantizer/quantized_tensor.h"
#include "quantizer/quantizer.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/counting_allocator.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Stream kStream;
constexpr Usages kRowWise = {/*row_wise=*/true};
constexpr Usages kColumnWise = {/*row_wise=*/false, /*column_wise=*/true};
constexpr Usages kBoth = {/*row_wise=*/true, /*column_wise=*/true};
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

std::vector<uint8_t> Bytes(const Buffer& buffer) {
  const uint8_t* bytes = buffer.as<uint8_t>();
  return {bytes, bytes + buffer.size()};
}

float Wave(int64_t r, int64_t c) {
  return std::sin(static_cast<float>(37 * r + 11 * c)) * 3;
}

struct Rig {
  explicit Rig(const std::string& policy, Allocator* allocator = nullptr)
      : module(FrozenModule("defaults { all { " + policy + " } }")),
        quantizer(ValueOrDie(MakeQuantizer(
            module.state.get(), module.slots.input, kBoth, allocator))) {}

  QuantizedTensor Quantize(const Usages& usages, TestTensor& x) {
    quantizer->set_usages(usages);
    return ValueOrDie(quantizer->Quantize(x.view(), kStream));
  }

  OneModule module;
  std::unique_ptr<Quantizer> quantizer;
};

// ------------------------------------------------------------ UpdateUsage

class ExactUpdateTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExactUpdateTest, GivesTheBitsOfQuantizingAnew) {
  const int64_t shapes[][2] = {{1, 1}, {17, 33}, {128, 128}, {300, 130}};
  for (const auto& [rows, cols] : shapes) {
    Rig rig(GetParam());
    TestTensor x = TestTensor::Of(DType::kBF16, rows, cols, Wave);
    const QuantizedTensor want = rig.Quantize(kBoth, x);
    QuantizedTensor rows_first = rig.Quantize(kRowWise, x);
    ASSERT_THAT(rows_first.UpdateUsage(kBoth, kStream), IsOk());
    QuantizedTensor columns_first = rig.Quantize(kColumnWise, x);
    ASSERT_THAT(columns_first.UpdateUsage(kBoth, kStream), IsOk());
    for (const QuantizedTensor* got : {&rows_first, &columns_first}) {
      EXPECT_EQ(got->usages(), kBoth);
      EXPECT_EQ(Bytes(got->row_wise->codes), Bytes(want.row_wise->codes));
      EXPECT_EQ(Bytes(got->column_wise->codes), Bytes(want.column_wise->codes));
      EXPECT_EQ(Bytes(got->row_wise->scale_inv),
                Bytes(want.row_wise->scale_inv));
      EXPECT_EQ(Bytes(got->column_wise->scale_inv),
                Bytes(want.column_wise->scale_inv));
      EXPECT_EQ(Bytes(got->column_wise->tensor_scale_inv),
                Bytes(want.column_wise->tensor_scale_inv));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scalings, ExactUpdateTest,
    ::testing::Values("format: E4M3 delayed {}", "format: E4M3 current {}",
                      "high_precision {}", "high_precision { dtype: FP32 }",
                      "format: E4M3 block { block_shape: B128X128 }",
                      "format: E4M3 mxfp8 { two_dimensional: true }",
                      "format: E2M1 nvfp4 { two_dimensional: true }"));

class RefusedUpdateTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedUpdateTest, NamesTheScalingAndWhy) {
  Rig rig(GetParam());
  TestTensor x = TestTensor::Of(DType::kF32, 32, 64, Wave);
  QuantizedTensor q = rig.Quantize(kRowWise, x);
  EXPECT_THAT(q.UpdateUsage(kBoth, kStream),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr(std::string(Name(q.scaling))),
                             HasSubstr("cannot give column_wise"),
                             HasSubstr("each scale belongs to"),
                             HasSubstr("quantize again"))));
  EXPECT_EQ(q.usages(), kRowWise);
}

INSTANTIATE_TEST_SUITE_P(Scalings, RefusedUpdateTest,
                         ::testing::Values("format: E4M3 rowwise {}",
                                           "format: E4M3 block {}",
                                           "format: E4M3 mxfp8 {}",
                                           "format: E2M1 nvfp4 {}"));

TEST(UpdateUsageTest, DropsOnlyWhenAsked) {
  CountingAllocator allocator;
  Rig rig("format: E4M3 delayed {}", &allocator);
  TestTensor x = TestTensor::Of(DType::kF32, 16, 32, Wave);
  QuantizedTensor q = rig.Quantize(kBoth, x);
  const size_t both = allocator.held;
  EXPECT_EQ(q.bytes(), both);
  ASSERT_THAT(q.UpdateUsage(kRowWise, kStream), IsOk());
  EXPECT_EQ(q.usages(), kBoth) << "kept";
  ASSERT_THAT(q.UpdateUsage(kRowWise, kStream, Unwanted::kDrop), IsOk());
  EXPECT_EQ(q.usages(), kRowWise);
  EXPECT_EQ(allocator.held, both - 16 * 32 - sizeof(float));
  EXPECT_EQ(q.bytes(), allocator.held);
  // And back, from the tensor's own allocator.
  ASSERT_THAT(q.UpdateUsage(kColumnWise, kStream, Unwanted::kDrop), IsOk());
  EXPECT_EQ(q.usages(), kColumnWise);
  EXPECT_EQ(q.bytes(), allocator.held);
  ASSERT_THAT(q.UpdateUsage(kRowWise, kStream), IsOk());
  EXPECT_EQ(Bytes(q.row_wise->codes),
            Bytes(rig.Quantize(kRowWise, x).row_wise->codes));
  EXPECT_THAT(q.UpdateUsage({false, false}, kStream),
              StatusIs(kInvalidArgument, HasSubstr("got none")));
  EXPECT_THAT(QuantizedTensor().UpdateUsage(kBoth, kStream),
              StatusIs(kInvalidArgument, HasSubstr("UpdateUsage")));
}

// What is queued on a stream would write into memory that was given back.
TEST(UpdateUsageTest, GivesNoMemoryBack) {
  for (const char* policy : {"format: E4M3 delayed {}", "high_precision {}",
                             "format: E4M3 block { block_shape: B128X128 }",
                             "format: E2M1 nvfp4 { two_dimensional: true }"}) {
    CountingAllocator allocator;
    Rig rig(policy, &allocator);
    TestTensor x = TestTensor::Of(DType::kF32, 16, 32, Wave);
    QuantizedTensor q = rig.Quantize(kRowWise, x);
    ASSERT_THAT(q.UpdateUsage(kBoth, kStream), IsOk());
    EXPECT_EQ(allocator.frees, 0) << policy;
    EXPECT_EQ(q.bytes(), allocator.held);
  }
}

// Memory that is given back because there is no more of it.
class SmallAllocator : public Allocator {
 public:
  explicit SmallAllocator(int allocations) : left_(allocations) {}
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (left_-- == 0) return absl::ResourceExhaustedError("no more");
    absl::StatusOr<void*> data = HostAllocator()->Allocate(bytes);
    if (data.ok()) std::memset(*data, 0xA5, bytes);
    return data;
  }
  void Deallocate(void* data, size_t bytes) override {
    for (size_t i = 0; i < bytes; ++i) {
      written_ |= static_cast<uint8_t*>(data)[i] != 0xA5;
    }
    HostAllocator()->Deallocate(data, bytes);
  }
  Device device() const override { return Device::Host(); }
  bool written() const { return written_; }

 private:
  int left_;
  bool written_ = false;
};

TEST(AllocationTest, NothingIsWrittenBeforeAllMemoryIsThere) {
  for (int allocations = 0; allocations < 7; ++allocations) {
    SmallAllocator allocator(allocations);
    Rig rig("format: E2M1 nvfp4 {}", &allocator);
    const auto q = rig.quantizer->MakeEmpty(32, 32);
    EXPECT_THAT(q, StatusIs(absl::StatusCode::kResourceExhausted,
                            HasSubstr("m/input: no more")));
    EXPECT_FALSE(allocator.written()) << allocations;
  }
}

TEST(UpdateUsageTest, TensorsWithoutElements) {
  for (const std::string policy :
       {"format: E4M3 delayed {}", "high_precision {}"}) {
    Rig rig(policy);
    TestTensor x(DType::kF32, 0, 5);
    QuantizedTensor q = rig.Quantize(kRowWise, x);
    ASSERT_THAT(q.UpdateUsage(kBoth, kStream), IsOk());
    EXPECT_EQ(q.usages(), kBoth);
  }
}

TEST(UsagesTest, AreIndependentFlags) {
  Rig rig("format: E4M3 delayed {}");
  rig.quantizer->SetUsage(Usage::kRowWise, false);
  EXPECT_EQ(rig.quantizer->usages(), kColumnWise);
  rig.quantizer->SetUsage(Usage::kAllGatherColumnWise, true);
  EXPECT_EQ(rig.quantizer->usages().ToString(),
            "column_wise, all_gather_column_wise");
  rig.quantizer->SetUsage(Usage::kColumnWise, false);
  rig.quantizer->SetUsage(Usage::kAllGatherColumnWise, false);
  EXPECT_FALSE(rig.quantizer->usages().any());
  EXPECT_EQ(rig.quantizer->usages().ToString(), "none");
  EXPECT_THAT(rig.quantizer->MakeEmpty(1, 1),
              StatusIs(kInvalidArgument, HasSubstr("usages: got none")));
}

// -------------------------------------------------------------- gathering

constexpr char kGatherRecipe[] =
    "defaults { all { format: E4M3 delayed { first_step: UNIT } } }";

// What one quantizer makes of all rows is what the gathered copy holds.
TEST(AllGatherTest, GivesTheColumnWiseCopyOfAllRows) {
  constexpr int kRanks = 3;
  constexpr int64_t kCols = 5;
  for (const int64_t rows : {int64_t{1}, int64_t{4}, int64_t{16}, int64_t{0}}) {
    auto group = CreateInProcessCommunicators(kRanks);
    OneModule whole = FrozenModule(kGatherRecipe);
    auto all = ValueOrDie(
        MakeQuantizer(whole.state.get(), whole.slots.input, kColumnWise));
    TestTensor x = TestTensor::Of(DType::kF32, rows * kRanks, kCols, Wave);
    const QuantizedTensor want = ValueOrDie(all->Quantize(x.view(), kStream));
    RunRanks(kRanks, [&](int rank) {
      OneModule module = FrozenModule(kGatherRecipe);
      auto quantizer = ValueOrDie(
          MakeQuantizer(module.state.get(), module.slots.input, kRowWise));
      quantizer->SetUsage(Usage::kAllGatherColumnWise, true);
      TestTensor part = TestTensor::Of(
          DType::kF32, rows, kCols,
          [&](int64_t r, int64_t c) { return Wave(r + rows * rank, c); });
      const QuantizedTensor local =
          ValueOrDie(quantizer->Quantize(part.view(), kStream));
      EXPECT_TRUE(local.usages().all_gather_column_wise);
      QuantizedTensor gathered =
          ValueOrDie(MakeGathered(local, kRanks, nullptr, kStream));
      Communicator* ranks = group[static_cast<size_t>(rank)].get();
      for (int step = 0; step < 2; ++step) {
        ASSERT_THAT(AllGatherColumnWise(local, ranks, &gathered, kStream),
                    IsOk());
      }
      EXPECT_EQ(gathered.rows, rows * kRanks);
      EXPECT_EQ(Bytes(gathered.column_wise->codes),
                Bytes(want.column_wise->codes));
      EXPECT_EQ(Bytes(gathered.column_wise->scale_inv),
                Bytes(want.column_wise->scale_inv));
      // It can be quantized and dequantized like any other.
      TestTensor again =
          TestTensor::Of(DType::kF32, rows * kRanks, kCols, Wave);
      EXPECT_THAT(
          quantizer->QuantizeInto(again.view(), &gathered, nullptr, kStream),
          IsOk());
      EXPECT_EQ(Bytes(gathered.column_wise->codes),
                Bytes(want.column_wise->codes));
    });
  }
}

TEST(AllGatherTest, RanksWithDifferentScalesAreRefusedOnAll) {  // I5
  auto group = CreateInProcessCommunicators(2);
  RunRanks(2, [&](int rank) {
    Rig rig("format: E4M3 current {}");
    TestTensor x = TestTensor::Row(DType::kF32, {rank == 0 ? 2.0f : 8.0f});
    const QuantizedTensor local = rig.Quantize({true, false, true}, x);
    QuantizedTensor gathered =
        ValueOrDie(MakeGathered(local, 2, nullptr, kStream));
    EXPECT_THAT(
        AllGatherColumnWise(local, group[static_cast<size_t>(rank)].get(),
                            &gathered, kStream),
        StatusIs(kFailedPrecondition,
                 AllOf(HasSubstr("on rank 1"), HasSubstr("on rank 0"),
                       HasSubstr("amax_group"))));
  });
}

TEST(AllGatherTest, UnequalRowsAreRefusedOnAll) {
  auto group = CreateInProcessCommunicators(2);
  RunRanks(2, [&](int rank) {
    Rig rig("format: E4M3 delayed { first_step: UNIT }");
    TestTensor x = TestTensor::Of(DType::kF32, rank + 1, 4, Wave);
    const QuantizedTensor local = rig.Quantize({true, false, true}, x);
    QuantizedTensor gathered =
        ValueOrDie(MakeGathered(local, 2, nullptr, kStream));
    EXPECT_THAT(
        AllGatherColumnWise(local, group[static_cast<size_t>(rank)].get(),
                            &gathered, kStream),
        StatusIs(kFailedPrecondition, HasSubstr("bytes to gather")));
  });
}

TEST(AllGatherTest, MakeGatheredGivesNoMemoryBack) {
  CountingAllocator allocator;
  Rig rig("format: E4M3 delayed {}");
  TestTensor x = TestTensor::Of(DType::kF32, 4, 4, Wave);
  const QuantizedTensor local = rig.Quantize({true, false, true}, x);
  const QuantizedTensor gathered =
      ValueOrDie(MakeGathered(local, 3, &allocator, kStream));
  EXPECT_EQ(allocator.frees, 0);
  EXPECT_EQ(gathered.bytes(), allocator.held);
}

TEST(AllGatherTest, BadArguments) {
  auto group = CreateInProcessCommunicators(1);
  Rig rig("format: E4M3 delayed {}");
  TestTensor x = TestTensor::Of(DType::kF32, 4, 4, Wave);
  QuantizedTensor local = rig.Quantize(kBoth, x);
  QuantizedTensor gathered =
      ValueOrDie(MakeGathered(local, 1, nullptr, kStream));
  EXPECT_THAT(AllGatherColumnWise(local, group[0].get(), &gathered, kStream),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("row_wise, column_wise"),
                             HasSubstr("want all_gather_column_wise"))));
  ASSERT_THAT(local.UpdateUsage({true, true, true}, kStream), IsOk());
  EXPECT_THAT(AllGatherColumnWise(local, group[0].get(), &gathered, kStream),
              IsOk());
  EXPECT_THAT(AllGatherColumnWise(local, nullptr, &gathered, kStream),
              StatusIs(kInvalidArgument, HasSubstr("communicator")));
  EXPECT_THAT(AllGatherColumnWise(local, group[0].get(), nullptr, kStream),
              StatusIs(kInvalidArgument, HasSubstr("gathered")));
  QuantizedTensor plain = rig.Quantize(kColumnWise, x);
  EXPECT_THAT(AllGatherColumnWise(local, group[0].get(), &plain, kStream),
              StatusIs(kInvalidArgument, HasSubstr("MakeGathered")));
  EXPECT_THAT(MakeGathered(local, 0, nullptr, kStream),
              StatusIs(kInvalidArgument, HasSubstr("ranks: got 0")));
}

TEST(AllGatherTest, ScalingsWithManyScalesCannotBeGathered) {
  Rig rig("high_precision {}");
  rig.quantizer->SetUsage(Usage::kAllGatherColumnWise, true);
  EXPECT_THAT(
      rig.quantizer->MakeEmpty(2, 2),
      StatusIs(kFailedPrecondition, AllOf(HasSubstr("all_gather_column_wise"),
                                          HasSubstr("high_precision"))));
}

// ----------------------------------------------------------- linear layers

LinearUsages UsagesUnder(const std::string& matmul, bool needs_dx = true) {
  OneModule module =
      FrozenModule("defaults { all { format: E4M3 delayed {} } } " + matmul);
  return GetLinearUsages(*module.state, "m", needs_dx);
}

TEST(LinearUsagesTest, AGemmInHighPrecisionNeedsNoCopies) {
  const LinearUsages all = UsagesUnder("");
  for (const Role role : kRoles) EXPECT_EQ(all.of(role), kBoth);

  const LinearUsages no_wgrad =
      UsagesUnder("matmul { wgrad { high_precision: true } }");
  EXPECT_EQ(no_wgrad.input, kRowWise);
  EXPECT_EQ(no_wgrad.weight, kBoth);
  EXPECT_EQ(no_wgrad.grad, kRowWise);

  const LinearUsages no_dgrad =
      UsagesUnder("matmul { dgrad { high_precision: true } }");
  EXPECT_EQ(no_dgrad.input, kBoth);
  EXPECT_EQ(no_dgrad.weight, kRowWise);
  EXPECT_EQ(no_dgrad.grad, kColumnWise);
  EXPECT_EQ(UsagesUnder("", /*needs_dx=*/false).grad, no_dgrad.grad);

  const LinearUsages none = UsagesUnder(
      "matmul { fprop { high_precision: true } dgrad { high_precision: true } "
      "wgrad { high_precision: true } }");
  for (const Role role : kRoles) EXPECT_FALSE(none.of(role).any());
}

TEST(LinearUsagesTest, FollowThePhase) {
  OneModule module = FrozenModule(
      "defaults { all { format: E4M3 delayed {} } } "
      "phase { from_step: 0 matmul { wgrad { high_precision: true } } } "
      "phase { from_step: 5 }");
  EXPECT_EQ(GetLinearUsages(*module.state, "m").input, kRowWise);
  ASSERT_THAT(module.state->SetStep(5), IsOk());
  EXPECT_EQ(GetLinearUsages(*module.state, "m").input, kBoth);
}

}  // namespace
}  // namespace scalekeeper
