// The tokens of several experts in one call, against one quantizer per expert.
#include "quantizer/grouped_quantizer.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quantizer/inference_guard.h"
#include "quantizer/quantizer.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/counting_allocator.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Stream kStream;
constexpr Usages kBoth = {/*row_wise=*/true, /*column_wise=*/true};
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

float Wave(int64_t r, int64_t c) {
  return std::sin(static_cast<float>(37 * r + 11 * c)) *
         static_cast<float>(r + 1);
}

// Experts of one family, frozen.
struct Experts {
  Experts(const std::string& recipe, int count, RecipeStateOptions options = {})
      : state(MakeState(recipe, std::move(options))) {
    for (const ModuleSlots& module :
         ValueOrDie(state->AddModules("experts", count))) {
      slots.push_back(module.input);
    }
    EXPECT_THAT(state->Freeze(), IsOk());
  }

  std::unique_ptr<GroupedQuantizer> Make(Usages usages = kBoth,
                                         Allocator* allocator = nullptr) {
    return ValueOrDie(
        GroupedQuantizer::Create(state.get(), slots, usages, allocator));
  }
  std::vector<uint32_t> Amaxes() {
    std::vector<uint32_t> amaxes;
    for (const SlotId slot : slots) amaxes.push_back(*state->View(slot).amax);
    return amaxes;
  }
  std::vector<float> Scales() {
    std::vector<float> scales;
    for (const SlotId slot : slots) {
      scales.push_back(ValueOrDie(state->Scale(slot, kStream)));
    }
    return scales;
  }

  std::unique_ptr<RecipeState> state;
  std::vector<SlotId> slots;
};

std::string CurrentRecipe(const std::string& options = "") {
  return "defaults { all { format: E4M3 current { " + options + " } } }";
}

std::vector<uint8_t> Slice(const Buffer& buffer, int64_t at, int64_t count) {
  const uint8_t* bytes = buffer.as<uint8_t>() + at;
  return {bytes, bytes + count};
}

struct Case {
  std::string recipe;
  std::vector<int64_t> counts;
  int64_t padding = 0;
};

class GroupedAgainstSingleTest : public ::testing::TestWithParam<Case> {};

float ScaleInvOf(const GroupedTensor& tensor, int expert) {
  return tensor.scale_inv.as<float>()[expert * kernels::kGroupedScaleStride];
}

TEST_P(GroupedAgainstSingleTest, GivesWhatAQuantizerPerExpertGives) {
  const Case& c = GetParam();
  const int count = static_cast<int>(c.counts.size());
  constexpr int64_t kCols = 7;
  int64_t rows = c.padding;
  for (const int64_t n : c.counts) rows += n;
  for (const Layout layout : kLayouts) {
    Experts grouped(c.recipe, count);
    Experts single(c.recipe, count);
    auto quantizer = grouped.Make();
    GroupedTensor q = ValueOrDie(quantizer->MakeEmpty(rows, kCols, kStream));
    TestTensor x = TestTensor::Of(DType::kBF16, rows, kCols, Wave, layout);
    // The second step has scales of the first.
    for (int step = 0; step < 2; ++step) {
      ASSERT_THAT(
          quantizer->QuantizeInto(x.view(), c.counts.data(), &q, kStream),
          IsOk());
      TestTensor back(DType::kF32, rows, kCols);
      ASSERT_THAT(quantizer->Dequantize(q, back.view(), kStream), IsOk());
      int64_t first = 0;
      for (int e = 0; e < count; ++e) {
        const int64_t n = c.counts[static_cast<size_t>(e)];
        SCOPED_TRACE(absl::StrCat("step ", step, " expert ", e));
        auto alone = ValueOrDie(MakeQuantizer(
            single.state.get(), single.slots[static_cast<size_t>(e)], kBoth));
        TestTensor part = TestTensor::Of(
            DType::kBF16, n, kCols,
            [&](int64_t r, int64_t col) { return Wave(first + r, col); });
        const QuantizedTensor want =
            ValueOrDie(alone->Quantize(part.view(), kStream));
        EXPECT_EQ(q.offsets.as<int64_t>()[e], first);
        EXPECT_EQ(Slice(q.row_wise, first * kCols, n * kCols),
                  Slice(want.row_wise->codes, 0, n * kCols));
        EXPECT_EQ(Slice(q.column_wise, first * kCols, n * kCols),
                  Slice(want.column_wise->codes, 0, n * kCols));
        EXPECT_EQ(ScaleInvOf(q, e), *want.row_wise->scale_inv.as<float>());
        TestTensor want_back(DType::kF32, n, kCols);
        ASSERT_THAT(alone->Dequantize(want, want_back.view(), kStream), IsOk());
        for (int64_t r = 0; r < n; ++r) {
          for (int64_t col = 0; col < kCols; ++col) {
            EXPECT_EQ(back.at(first + r, col), want_back.at(r, col));
          }
        }
        first += n;
      }
      for (int64_t r = first; r < rows; ++r) EXPECT_EQ(back.at(r, 0), 0.0f);
      EXPECT_EQ(grouped.Amaxes(), single.Amaxes());
      EXPECT_THAT(grouped.state->EndStep(kStream), IsOk());
      EXPECT_THAT(single.state->EndStep(kStream), IsOk());
    }
  }
}

// G1: splits with experts that have no tokens.
INSTANTIATE_TEST_SUITE_P(
    Cases, GroupedAgainstSingleTest,
    ::testing::Values(Case{DelayedRecipe("first_step: UNIT"), {5, 0, 3}},
                      Case{DelayedRecipe(""), {5, 0, 3}},
                      Case{CurrentRecipe(), {5, 0, 3}},
                      Case{CurrentRecipe("power_2_scale: true"), {8, 0}},
                      Case{DelayedRecipe(""), {0, 0}},
                      Case{CurrentRecipe(), {0, 0}},
                      Case{DelayedRecipe("margin: 1"), {1, 2, 3, 4}, 3},
                      Case{CurrentRecipe(), {0, 70, 0, 0, 65, 0}, 5}));

TEST(GroupedQuantizerTest, AnExpertWithoutTokensKeepsScaleAndWindow) {  // G1
  Experts experts(DelayedRecipe("amax_history_len: 4"), 3);
  auto quantizer = experts.Make();
  TestTensor x =
      TestTensor::Of(DType::kF32, 8, 1, [](int64_t, int64_t) { return 8.0f; });
  GroupedTensor q = ValueOrDie(quantizer->MakeEmpty(8, 1, kStream));
  const int64_t first[] = {3, 3, 2};
  ASSERT_THAT(quantizer->QuantizeInto(x.view(), first, &q, kStream), IsOk());
  ASSERT_THAT(experts.state->EndStep(kStream), IsOk());
  EXPECT_THAT(experts.Scales(), Each(56.0f));
  x.Set(0, 0, 16.0f);
  const int64_t second[] = {5, 0, 3};
  ASSERT_THAT(quantizer->QuantizeInto(x.view(), second, &q, kStream), IsOk());
  EXPECT_EQ(experts.Amaxes()[1], 0u) << "not observed";
  ASSERT_THAT(experts.state->EndStep(kStream), IsOk());
  EXPECT_THAT(experts.Scales(), ElementsAre(28.0f, 56.0f, 56.0f));
  EXPECT_EQ(ValueOrDie(experts.state->Window(experts.slots[1], kStream)),
            AsBits({8.0f}));
}

TEST(GroupedQuantizerTest, APoisonedExpertPoisonsNoOther) {
  Experts experts(CurrentRecipe(), 2);
  auto quantizer = experts.Make();
  TestTensor two = TestTensor::Of(DType::kF32, 2, 1, [](int64_t r, int64_t) {
    return r == 0 ? std::numeric_limits<float>::quiet_NaN() : 2.0f;
  });
  GroupedTensor q = ValueOrDie(quantizer->MakeEmpty(2, 1, kStream));
  const int64_t counts[] = {1, 1};
  ASSERT_THAT(quantizer->QuantizeInto(two.view(), counts, &q, kStream), IsOk());
  EXPECT_EQ(ScaleInvOf(q, 0), 1.0f);
  EXPECT_EQ(ScaleInvOf(q, 1), 1.0f / 224.0f);
  ASSERT_THAT(experts.state->EndStep(kStream), IsOk());
  EXPECT_THAT(experts.state->Check(kStream),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("experts.0/input"),
                             ::testing::Not(HasSubstr("experts.1/input")))));
}

TEST(GroupedQuantizerTest, SharesAmaxesOverTheGroup) {
  auto ranks = CreateInProcessCommunicators(2);
  RunRanks(2, [&](int rank) {
    RecipeStateOptions options;
    options.groups["tp"] = ranks[static_cast<size_t>(rank)].get();
    options.groups["default"] = ranks[static_cast<size_t>(rank)].get();
    Experts experts(CurrentRecipe("amax_group: \"tp\""), 2, options);
    auto quantizer = experts.Make();
    // Rank 1 has no tokens for expert 0.
    const int64_t counts[] = {rank == 0 ? 1 : 0, 1};
    const int64_t rows = counts[0] + counts[1];
    TestTensor x =
        TestTensor::Of(DType::kF32, rows, 1, [&](int64_t r, int64_t) {
          return r == rows - 1 ? (rank == 0 ? 2.0f : 8.0f) : 4.0f;
        });
    GroupedTensor q = ValueOrDie(quantizer->MakeEmpty(rows, 1, kStream));
    ASSERT_THAT(quantizer->QuantizeInto(x.view(), counts, &q, kStream), IsOk());
    EXPECT_EQ(ScaleInvOf(q, 0), 1.0f / 112.0f);
    EXPECT_EQ(ScaleInvOf(q, 1), 1.0f / 56.0f);
  });
}

TEST(GroupedQuantizerTest, InferenceObservesNothingAndMakesRowsOnly) {
  Experts experts(DelayedRecipe(""), 2);
  auto quantizer = experts.Make();
  TestTensor x = TestTensor::Of(DType::kF32, 4, 2, Wave);
  const int64_t counts[] = {2, 2};
  const InferenceGuard inference;
  GroupedTensor q = ValueOrDie(quantizer->MakeEmpty(4, 2, kStream));
  EXPECT_EQ(q.column_wise.size(), 0u);
  ASSERT_THAT(quantizer->QuantizeInto(x.view(), counts, &q, kStream), IsOk());
  EXPECT_THAT(experts.Amaxes(), Each(0u));
}

TEST(GroupedQuantizerTest, AllocatesNothingOnceWarm) {
  CountingAllocator allocator;
  Experts experts(DelayedRecipe(""), 2);
  auto quantizer = experts.Make(kBoth, &allocator);
  TestTensor x = TestTensor::Of(DType::kF32, 4, 2, Wave);
  const int64_t counts[] = {2, 2};
  GroupedTensor q = ValueOrDie(quantizer->MakeEmpty(4, 2, kStream));
  const int64_t before = allocator.allocations;
  ASSERT_THAT(quantizer->QuantizeInto(x.view(), counts, &q, kStream), IsOk());
  EXPECT_EQ(allocator.allocations, before);
}

TEST(GroupedQuantizerTest, CountsThatDoNotFitAreRefused) {
  Experts experts(DelayedRecipe(""), 3);
  auto quantizer = experts.Make();
  TestTensor x = TestTensor::Of(DType::kF32, 8, 2, Wave);
  GroupedTensor q = ValueOrDie(quantizer->MakeEmpty(8, 2, kStream));
  const int64_t good[] = {5, 0, 3};
  ASSERT_THAT(quantizer->QuantizeInto(x.view(), good, &q, kStream), IsOk());
  const int64_t negative[] = {5, -1, 3};
  EXPECT_THAT(
      quantizer->QuantizeInto(x.view(), negative, &q, kStream),
      StatusIs(kInvalidArgument, HasSubstr("counts[1]: got -1, want 0..3")));
  const int64_t many[] = {5, 0, 4};
  EXPECT_THAT(
      quantizer->QuantizeInto(x.view(), many, &q, kStream),
      StatusIs(kInvalidArgument, HasSubstr("counts[2]: got 4, want 0..3")));
  EXPECT_EQ(q.offsets.as<int64_t>()[3], 8) << "as it was";
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), nullptr, &q, kStream),
              StatusIs(kInvalidArgument, HasSubstr("counts")));
  EXPECT_THAT(quantizer->QuantizeInto(x.view(), good, nullptr, kStream),
              StatusIs(kInvalidArgument, HasSubstr("out")));
  TestTensor other = TestTensor::Of(DType::kF32, 7, 2, Wave);
  EXPECT_THAT(quantizer->QuantizeInto(other.view(), good, &q, kStream),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("8x2"), HasSubstr("want 3 experts"),
                             HasSubstr("7x2"))));
}

TEST(GroupedQuantizerTest, SlotsThatDoNotFitAreRefused) {
  auto state = MakeState(
      "defaults { all { format: E4M3 delayed {} } } "
      "rule { module: \"experts.1\" input { delayed { margin: 1 } } }");
  const std::vector<ModuleSlots> experts =
      ValueOrDie(state->AddModules("experts", 2));
  const std::vector<SlotId> slots = {experts[0].input, experts[1].input};
  EXPECT_THAT(
      GroupedQuantizer::Create(state.get(), slots),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Freeze")));
  ASSERT_THAT(state->Freeze(), IsOk());
  EXPECT_THAT(GroupedQuantizer::Create(state.get(), slots),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("experts.1/input"),
                                               HasSubstr("margin=1"),
                                               HasSubstr("experts.0/input"))));
  EXPECT_THAT(GroupedQuantizer::Create(state.get(), {}),
              StatusIs(kInvalidArgument, HasSubstr("slots: got none")));
  EXPECT_THAT(GroupedQuantizer::Create(state.get(), {SlotId{99}}),
              StatusIs(kInvalidArgument, HasSubstr("slots: got 99")));
  EXPECT_THAT(
      GroupedQuantizer::Create(state.get(), {slots[0]}, Usages{false, false}),
      StatusIs(kInvalidArgument, HasSubstr("usages: got none")));

  Experts blocks("defaults { all { format: E4M3 mxfp8 {} } }", 2);
  EXPECT_THAT(blocks.Make()->MakeEmpty(4, 4, kStream),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("experts.0/input"),
                             HasSubstr("scaling mxfp8"))));
}

}  // namespace
}  // namespace scalekeeper
