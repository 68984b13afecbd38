// Amaxes that ranks share before they quantize, on in-process ranks.
#include "quantizer/quantize_many.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quantizer/inference_guard.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/counting_allocator.h"
#include "tests/testing/flaky_communicator.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Stream kStream;

std::string CurrentRecipe(const std::string& rules = "") {
  return "defaults { all { format: E4M3 current { amax_group: \"tp\" } } } " +
         rules;
}

// The ranks of groups "tp" and "sp", one state each.
class Ranks {
 public:
  Ranks(int size, const std::string& recipe,
        absl::Duration deadline = absl::Seconds(60)) {
    InProcessCommunicatorOptions communicator_options;
    communicator_options.deadline = deadline;
    tp_ = CreateInProcessCommunicators(size, communicator_options);
    sp_ = CreateInProcessCommunicators(size, communicator_options);
    for (size_t r = 0; r < static_cast<size_t>(size); ++r) {
      counting_.push_back(std::make_unique<FlakyCommunicator>(tp_[r].get()));
      RecipeStateOptions options;
      options.groups["tp"] = counting_.back().get();
      options.groups["sp"] = sp_[r].get();
      options.groups["default"] = sp_[r].get();
      modules_.push_back(std::make_unique<OneModule>(recipe, options));
    }
    RunRanks(size, [&](int rank) { ASSERT_THAT(at(rank).Freeze(), IsOk()); });
  }

  OneModule& at(int rank) { return *modules_[static_cast<size_t>(rank)]; }
  int64_t messages(int rank) {
    return counting_[static_cast<size_t>(rank)]->calls();
  }
  std::unique_ptr<Quantizer> Make(int rank, Role role,
                                  Allocator* allocator = nullptr) {
    return ValueOrDie(MakeQuantizer(
        at(rank).state.get(), at(rank).slots.slot(role), Usages(), allocator));
  }

 private:
  std::vector<std::unique_ptr<Communicator>> tp_, sp_;
  std::vector<std::unique_ptr<FlakyCommunicator>> counting_;
  std::vector<std::unique_ptr<OneModule>> modules_;
};

float ScaleInv(const QuantizedTensor& tensor) {
  return *tensor.row_wise->scale_inv.as<float>();
}

TEST(QuantizeManyTest, EveryRankScalesWithTheAmaxOfAll) {
  Ranks ranks(2, CurrentRecipe());
  RunRanks(2, [&](int rank) {
    auto quantizer = ranks.Make(rank, Role::kInput);
    TestTensor x = TestTensor::Row(DType::kF32, {rank == 0 ? 2.0f : 8.0f});
    const QuantizedTensor q =
        ValueOrDie(quantizer->Quantize(x.view(), kStream));
    EXPECT_EQ(ScaleInv(q), 1.0f / 56.0f);
    EXPECT_EQ(*ranks.at(rank).state->View(ranks.at(rank).slots.input).amax,
              FloatBits(rank == 0 ? 2 : 8))
        << "a slot observes its own rank";
  });
}

// E6: the scale is that of all ranks whether the tensors are in one group or in
// two.
TEST(QuantizeManyTest, OneGroupAndTwoGroupsGiveTheSameScales) {
  const std::string rules[] = {
      "", "rule { module: \"m\" weight { current { amax_group: \"sp\" } } }"};
  for (const std::string& rule : rules) {
    Ranks ranks(2, CurrentRecipe(rule));
    RunRanks(2, [&](int rank) {
      auto input = ranks.Make(rank, Role::kInput);
      auto weight = ranks.Make(rank, Role::kWeight);
      TestTensor x = TestTensor::Row(DType::kF32, {rank == 0 ? 2.0f : 8.0f});
      TestTensor w = TestTensor::Row(DType::kF32, {rank == 0 ? 4.0f : 1.0f});
      QuantizedTensor x8 = ValueOrDie(input->MakeEmpty(1, 1));
      QuantizedTensor w8 = ValueOrDie(weight->MakeEmpty(1, 1));
      const QuantizeItem items[] = {{input.get(), x.view(), &x8},
                                    {weight.get(), w.view(), &w8}};
      const int64_t before = ranks.messages(rank);
      ASSERT_THAT(QuantizeMany(items, kStream), IsOk());
      EXPECT_EQ(ScaleInv(x8), 1.0f / 56.0f);
      EXPECT_EQ(ScaleInv(w8), 1.0f / 112.0f);
      EXPECT_EQ(ranks.messages(rank), before + 1)
          << "one message, however many tensors";
    });
  }
}

TEST(QuantizeManyTest, TensorScalesOfNvfp4AreThoseOfTheGroup) {  // E6
  const std::string rules[] = {
      "", "rule { module: \"m\" weight { nvfp4 { amax_group: \"sp\" } } }"};
  for (const std::string& rule : rules) {
    Ranks ranks(2, "defaults { all { nvfp4 { amax_group: \"tp\" } } } " + rule);
    RunRanks(2, [&](int rank) {
      auto input = ranks.Make(rank, Role::kInput);
      auto weight = ranks.Make(rank, Role::kWeight);
      TestTensor x = TestTensor::Row(DType::kF32, {rank == 0 ? 2.0f : 8.0f});
      QuantizedTensor x4 = ValueOrDie(input->MakeEmpty(1, 1));
      QuantizedTensor w4 = ValueOrDie(weight->MakeEmpty(1, 1));
      const QuantizeItem items[] = {{input.get(), x.view(), &x4},
                                    {weight.get(), x.view(), &w4}};
      ASSERT_THAT(QuantizeMany(items, kStream), IsOk());
      for (const QuantizedTensor* q : {&x4, &w4}) {
        EXPECT_EQ(*q->row_wise->tensor_scale_inv.as<float>(), 1.0f / 336.0f);
      }
    });
  }
}

TEST(QuantizeManyTest, ARankWithoutElementsJoins) {  // G3
  Ranks ranks(2, CurrentRecipe(), absl::Seconds(20));
  RunRanks(2, [&](int rank) {
    auto quantizer = ranks.Make(rank, Role::kInput);
    TestTensor x = rank == 0 ? TestTensor::Row(DType::kF32, {8.0f})
                             : TestTensor(DType::kF32, 0, 1);
    const QuantizedTensor q =
        ValueOrDie(quantizer->Quantize(x.view(), kStream));
    EXPECT_EQ(ScaleInv(q), 1.0f / 56.0f);
  });
}

TEST(QuantizeManyTest, ATensorThatIsSkippedBringsNothing) {
  Ranks ranks(2, CurrentRecipe());
  RunRanks(2, [&](int rank) {
    auto quantizer = ranks.Make(rank, Role::kInput);
    TestTensor x = TestTensor::Row(DType::kF32, {rank == 0 ? 8.0f : 100.0f});
    QuantizedTensor q = ValueOrDie(quantizer->MakeEmpty(1, 1));
    const uint32_t skip = rank == 0 ? 0 : 1;
    ASSERT_THAT(quantizer->QuantizeInto(x.view(), &q, &skip, kStream), IsOk());
    EXPECT_EQ(ScaleInv(q), rank == 0 ? 1.0f / 56.0f : 1.0f);
  });
}

TEST(QuantizeManyTest, InferenceSharesAmaxesTooAndObservesNothing) {
  Ranks ranks(2, CurrentRecipe());
  RunRanks(2, [&](int rank) {
    const InferenceGuard inference;
    auto quantizer = ranks.Make(rank, Role::kInput);
    TestTensor x = TestTensor::Row(DType::kF32, {rank == 0 ? 2.0f : 8.0f});
    EXPECT_EQ(ScaleInv(ValueOrDie(quantizer->Quantize(x.view(), kStream))),
              1.0f / 56.0f);
    EXPECT_EQ(*ranks.at(rank).state->View(ranks.at(rank).slots.input).amax, 0u);
  });
}

TEST(QuantizeManyTest, AllocatesNothingOnceWarm) {
  CountingAllocator allocator;
  auto ranks = CreateInProcessCommunicators(1);
  RecipeStateOptions options;
  options.allocator = &allocator;
  options.groups["tp"] = ranks[0].get();
  options.groups["default"] = ranks[0].get();
  OneModule module = FrozenModule(CurrentRecipe(), options);
  auto quantizer = ValueOrDie(MakeQuantizer(
      module.state.get(), module.slots.input, Usages(), &allocator));
  TestTensor x = TestTensor::Row(DType::kF32, {8.0f});
  QuantizedTensor q = ValueOrDie(quantizer->Quantize(x.view(), kStream));
  const int64_t before = allocator.allocations;
  const std::vector<QuantizeItem> items(3, {quantizer.get(), x.view(), &q});
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(QuantizeMany(items, kStream), IsOk());
  }
  EXPECT_EQ(allocator.allocations, before);
}

TEST(QuantizeManyTest, FaultsAreSaidBeforeAnythingIsSent) {
  Ranks ranks(1, CurrentRecipe());
  auto quantizer = ranks.Make(0, Role::kInput);
  TestTensor x = TestTensor::Row(DType::kF32, {8.0f});
  QuantizedTensor q = ValueOrDie(quantizer->MakeEmpty(1, 1));
  const int64_t before = ranks.messages(0);
  const QuantizeItem nobody[] = {{quantizer.get(), x.view(), &q},
                                 {nullptr, x.view(), &q}};
  EXPECT_THAT(QuantizeMany(nobody, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("items[1].quantizer")));
  const QuantizeItem nowhere[] = {{quantizer.get(), x.view(), &q},
                                  {quantizer.get(), x.view(), nullptr}};
  EXPECT_THAT(QuantizeMany(nowhere, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("out:")));
  OneModule delayed = FrozenModule(DelayedRecipe(""));
  auto another =
      ValueOrDie(MakeQuantizer(delayed.state.get(), delayed.slots.input));
  QuantizedTensor theirs = ValueOrDie(another->MakeEmpty(1, 1));
  const QuantizeItem of_another[] = {{quantizer.get(), x.view(), &q},
                                     {quantizer.get(), x.view(), &theirs}};
  EXPECT_THAT(QuantizeMany(of_another, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("out: got delayed")));
  EXPECT_EQ(ranks.messages(0), before);
  EXPECT_EQ(ScaleInv(q), 1.0f);
  EXPECT_THAT(QuantizeMany({}, kStream), IsOk());
}

// Also where no rank has to wait for another.
TEST(QuantizeManyTest, ALaterItemsPolicyIsCheckedBeforeTheFirstIsCast) {
  OneModule module = FrozenModule(
      "defaults { all { format: E4M3 current {} } weight { rowwise {} } "
      "grad { high_precision {} } }");
  std::vector<std::unique_ptr<Quantizer>> quantizers;
  std::vector<QuantizedTensor> outs;
  for (const Role role : kRoles) {
    quantizers.push_back(
        ValueOrDie(MakeQuantizer(module.state.get(), module.slots.slot(role))));
    outs.push_back(ValueOrDie(quantizers.back()->MakeEmpty(1, 1)));
  }
  TestTensor x = TestTensor::Row(DType::kF32, {8.0f});
  for (size_t second : {1, 2}) {
    const QuantizeItem items[] = {
        {quantizers[0].get(), x.view(), &outs[0]},
        {quantizers[second].get(), x.view(), &outs[0]}};
    EXPECT_THAT(QuantizeMany(items, kStream),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("out: got current E4M3 1x1")));
    EXPECT_EQ(ScaleInv(outs[0]), 1.0f);
    EXPECT_EQ(*module.state->View(module.slots.input).amax, 0u);
  }
}

// Groups in the order of their names, whatever order the items have.
TEST(QuantizeManyTest, ItemsOfSeveralGroupsMayAlternate) {
  Ranks ranks(2, CurrentRecipe("rule { module: \"m\" weight { current { "
                               "amax_group: \"sp\" } } grad { "
                               "high_precision {} } }"));
  RunRanks(2, [&](int rank) {
    std::vector<std::unique_ptr<Quantizer>> quantizers;
    std::vector<QuantizedTensor> outs;
    std::vector<TestTensor> xs;
    for (int i = 0; i < 12; ++i) {
      quantizers.push_back(
          ranks.Make(rank, kRoles[static_cast<size_t>(i) % 3]));
      outs.push_back(ValueOrDie(quantizers.back()->MakeEmpty(1, 1)));
      xs.push_back(TestTensor::Row(
          DType::kF32, {std::ldexp(rank == i % 2 ? 7.0f : 1.0f, i)}));
    }
    std::vector<QuantizeItem> items;
    for (size_t i = 0; i < outs.size(); ++i) {
      items.push_back({quantizers[i].get(), xs[i].view(), &outs[i]});
    }
    const int64_t before = ranks.messages(rank);
    ASSERT_THAT(QuantizeMany(items, kStream), IsOk());
    EXPECT_EQ(ranks.messages(rank), before + 1);
    for (size_t i = 0; i < outs.size(); ++i) {
      if (i % 3 == 2) continue;
      EXPECT_EQ(ScaleInv(outs[i]), std::ldexp(1 / 64.0f, static_cast<int>(i)));
    }
  });
}

TEST(QuantizeManyTest, GroupsOfOneNameAreOneStates) {
  Ranks a(1, CurrentRecipe()), b(1, CurrentRecipe());
  auto first = a.Make(0, Role::kInput);
  auto second = b.Make(0, Role::kWeight);
  TestTensor x = TestTensor::Row(DType::kF32, {8.0f});
  QuantizedTensor x8 = ValueOrDie(first->MakeEmpty(1, 1));
  QuantizedTensor y8 = ValueOrDie(second->MakeEmpty(1, 1));
  const QuantizeItem items[] = {{first.get(), x.view(), &x8},
                                {second.get(), x.view(), &y8}};
  EXPECT_THAT(
      QuantizeMany(items, kStream),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("m/input and m/weight"), HasSubstr("\"tp\""))));
}

TEST(QuantizeManyTest, AMissingRankIsNamedWithTheGroup) {
  Ranks ranks(2, CurrentRecipe(), absl::Milliseconds(200));
  auto quantizer = ranks.Make(0, Role::kInput);
  TestTensor x = TestTensor::Row(DType::kF32, {8.0f});
  QuantizedTensor q = ValueOrDie(quantizer->MakeEmpty(1, 1));
  EXPECT_THAT(
      quantizer->QuantizeInto(x.view(), &q, nullptr, kStream),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("amax_group \"tp\""), HasSubstr("rank 1"))));
  EXPECT_EQ(ScaleInv(q), 1.0f);
}

TEST(AmaxGroupTest, FreezeDemandsThatItIsBound) {
  auto ranks = CreateInProcessCommunicators(1);
  RecipeStateOptions options;
  options.groups["default"] = ranks[0].get();
  OneModule module(CurrentRecipe(), options);
  EXPECT_THAT(module.Freeze(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("amax_group"), HasSubstr("\"tp\""),
                             HasSubstr("bound are \"default\""))));
}

TEST(AmaxGroupTest, WithoutCommunicatorsEveryGroupIsThisProcess) {
  OneModule module = FrozenModule(CurrentRecipe());
  auto quantizer =
      ValueOrDie(MakeQuantizer(module.state.get(), module.slots.input));
  TestTensor x = TestTensor::Row(DType::kF32, {2.0f});
  EXPECT_EQ(ScaleInv(ValueOrDie(quantizer->Quantize(x.view(), kStream))),
            1.0f / 224.0f);
}

TEST(AmaxGroupTest, FreezeComparesTheSlotsOfTheGroup) {
  auto tp = CreateInProcessCommunicators(2);
  auto alone = CreateInProcessCommunicators(1);
  auto alone_too = CreateInProcessCommunicators(1);
  RunRanks(2, [&](int rank) {
    RecipeStateOptions options;
    options.groups["tp"] = tp[static_cast<size_t>(rank)].get();
    options.groups["default"] = rank == 0 ? alone[0].get() : alone_too[0].get();
    auto state = MakeState(CurrentRecipe(), options);
    ASSERT_THAT(state->AddModule("m"), IsOk());
    if (rank == 0) {
      ASSERT_THAT(state->AddModule("n"), IsOk());
    }
    EXPECT_THAT(state->Freeze(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          AllOf(HasSubstr("group \"tp\""),
                                                HasSubstr("\"n/input\""))));
  });
}

}  // namespace
}  // namespace scalekeeper
