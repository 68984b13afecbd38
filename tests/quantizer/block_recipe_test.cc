// Block scalings as a recipe gives them to a module's slots: flags, the step
// that random numbers depend on, amaxes of several ranks.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quantizer/quantizer.h"
#include "tests/amax/state_testing.h"
#include "tests/quantizer/block_testing.h"
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

std::string Defaults(const std::string& policy) {
  return "defaults { all { " + policy + " } }";
}

TEST(BlockRecipeTest, NonFiniteAmaxRaisesTheSlotsFlag) {
  for (const char* policy :
       {"rowwise {}", "block {}", "mxfp8 {}", "nvfp4 {}"}) {
    SCOPED_TRACE(policy);
    OneModule module(Defaults(policy));
    ASSERT_THAT(module.Freeze(), IsOk());
    const SlotView view = module.state->View(module.slots.grad);
    EXPECT_NE(view.amax, nullptr);
    EXPECT_EQ(view.scale, nullptr);
    const auto quantizer =
        ValueOrDie(MakeQuantizer(module.state.get(), module.slots.grad));
    TestTensor x = TestTensor::Row(DType::kF32,
                                   {1, std::numeric_limits<float>::infinity()});
    ASSERT_THAT(quantizer->Quantize(x.view(), kStream), IsOk());
    ASSERT_THAT(module.state->EndStep(kStream), IsOk());
    EXPECT_THAT(module.state->Check(kStream),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("m/grad")));
    EXPECT_THAT(module.state->NonFiniteSlots(kStream),
                IsOkAndHolds(ElementsAre("m/grad")));
    // The next step is clean: the word was cleared.
    ASSERT_THAT(module.state->ClearFlags(kStream), IsOk());
    ASSERT_THAT(module.state->EndStep(kStream), IsOk());
    EXPECT_THAT(module.state->Check(kStream), IsOk());
  }
}

TEST(BlockRecipeTest, StepWordFollowsTheStep) {
  OneModule module(Defaults("nvfp4 {}"));
  EXPECT_EQ(module.state->StepWord(), nullptr);
  ASSERT_THAT(module.state->SetStep(7), IsOk());
  ASSERT_THAT(module.Freeze(), IsOk());
  const int64_t* word = module.state->StepWord();
  EXPECT_EQ(*word, 7);
  ASSERT_THAT(module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(*word, 8);
  ASSERT_THAT(module.state->SetStep(100), IsOk());
  EXPECT_EQ(*word, 100);
  ASSERT_THAT(module.state->EndStep(kStream), IsOk());
  EXPECT_EQ(*word, 101);
  ASSERT_THAT(module.state->RestorePrevious(kStream), IsOk());
  EXPECT_EQ(*word, 100);
}

TEST(BlockRecipeTest, StochasticRoundingDrawsAnewInEveryStep) {
  OneModule module(Defaults("nvfp4 { stochastic_rounding: true seed: 3 }"));
  ASSERT_THAT(module.Freeze(), IsOk());
  const auto quantizer =
      ValueOrDie(MakeQuantizer(module.state.get(), module.slots.grad));
  TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 64, 64);
  const auto codes = [&] {
    return UnpackedCodes(ValueOrDie(quantizer->Quantize(x.view(), kStream)),
                         /*column_wise=*/false);
  };
  const std::vector<uint8_t> first = codes();
  EXPECT_EQ(codes(), first);  // a recomputation
  ASSERT_THAT(module.state->EndStep(kStream), IsOk());
  EXPECT_NE(codes(), first);
  ASSERT_THAT(module.state->SetStep(0), IsOk());
  EXPECT_EQ(codes(), first);
}

TEST(BlockRecipeTest, EveryPresetQuantizesEveryRole) {
  for (const char* preset : {"rowwise", "blockwise", "mxfp8", "nvfp4"}) {
    SCOPED_TRACE(preset);
    std::unique_ptr<RecipeState> state =
        ValueOrDie(RecipeState::Create(ValueOrDie(Recipe::Load(preset)), {}));
    const ModuleSlots slots = ValueOrDie(state->AddModule("layers.0.fc1"));
    ASSERT_THAT(state->Freeze(), IsOk());
    for (const Role role : kRoles) {
      const auto quantizer = ValueOrDie(
          MakeQuantizer(state.get(), slots.slot(role), {true, true}));
      TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 160, 136);
      const QuantizedTensor q =
          ValueOrDie(quantizer->Quantize(x.view(), kStream));
      const Statistics s = ValueOrDie(quantizer->Measure(x.view(), kStream));
      EXPECT_GT(s.sqnr_db(), q.format == Format::kE2M1 ? 12 : 20);
      TestTensor back(DType::kF32, 160, 136);
      EXPECT_THAT(quantizer->Dequantize(q, back.view(), kStream), IsOk());
    }
  }
}

// Ranks of a group "tp", one state each.
class BlockRanks {
 public:
  BlockRanks(int size, const std::string& policy) {
    group_ = CreateInProcessCommunicators(size);
    for (const auto& communicator : group_) {
      RecipeStateOptions options;
      options.groups["tp"] = communicator.get();
      modules_.push_back(
          std::make_unique<OneModule>(Defaults(policy), options));
    }
    RunRanks(size, [&](int rank) { EXPECT_THAT(at(rank).Freeze(), IsOk()); });
  }

  std::unique_ptr<Quantizer> Make(int rank, const Usages& usages) {
    return ValueOrDie(
        MakeQuantizer(at(rank).state.get(), at(rank).slots.input, usages));
  }
  uint32_t Observed(int rank) {
    return *at(rank).state->View(at(rank).slots.input).amax;
  }
  OneModule& at(int rank) { return *modules_[static_cast<size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<Communicator>> group_;
  std::vector<std::unique_ptr<OneModule>> modules_;
};

TestTensor Filled(DType dtype, int64_t rows, int64_t cols, float value) {
  return TestTensor::Of(dtype, rows, cols,
                        [=](int64_t, int64_t) { return value; });
}

TEST(BlockRecipeTest, TensorAmaxIsThatOfTheGroup) {  // E6
  BlockRanks ranks(2, "nvfp4 { amax_group: \"tp\" }");
  RunRanks(2, [&](int rank) {
    const auto quantizer = ranks.Make(rank, {true, true});
    TestTensor x = TestTensor::Row(DType::kF32, {1, rank == 0 ? 2.0f : 8.0f});
    const QuantizedTensor q =
        ValueOrDie(quantizer->Quantize(x.view(), kStream));
    EXPECT_EQ(*q.row_wise->scales.tensor_scale_inv, 1 / 336.0f);
    EXPECT_EQ(*q.column_wise->scales.tensor_scale_inv, 1 / 336.0f);
  });
}

// One rank validates, or has no wgrad, while another trains.
TEST(BlockRecipeTest, TensorScalesDoNotDependOnUsages) {
  constexpr Usages kUses[] = {{true, false}, {false, true}, {true, true}};
  for (const char* options : {"", "two_dimensional: true "}) {
    BlockRanks ranks(3,
                     absl::StrCat("nvfp4 { ", options, "amax_group: \"tp\" }"));
    for (int turn = 0; turn < 3; ++turn) {
      RunRanks(3, [&](int rank) {
        const Usages uses = kUses[(rank + turn) % 3];
        const auto quantizer = ranks.Make(rank, uses);
        // The largest is now on this rank, now on that.
        TestTensor x = Filled(DType::kF32, 16, 16, rank == 0 ? 8.0f : 2.0f);
        const QuantizedTensor q =
            ValueOrDie(quantizer->Quantize(x.view(), kStream));
        for (const auto* use : {&q.row_wise, &q.column_wise}) {
          if (!*use) continue;
          EXPECT_EQ(*(*use)->scales.tensor_scale_inv, 1 / 336.0f);
        }
      });
    }
  }
}

// What is transformed on one rank alone counts on the others, too.
TEST(BlockRecipeTest, TransformedAmaxesDoNotDependOnUsages) {
  for (const int64_t rows : {16, 17}) {
    BlockRanks ranks(2,
                     "nvfp4 { random_hadamard: true amax_group: \"tp\" } } "
                     "weight { high_precision {}");
    RunRanks(2, [&](int rank) {
      const auto quantizer = ranks.Make(rank, {true, rank == 0});
      // A spike of 24 is spread to 6; of 240, to 60.
      TestTensor x(DType::kF32, rank == 0 ? 16 : rows, 1);
      for (int64_t r = 0; r < (rank == 0 ? 16 : rows); ++r) {
        x.Set(r, 0, r != 0 ? 0.0f : rank == 0 ? 24.0f : 240.0f);
      }
      const QuantizedTensor q =
          ValueOrDie(quantizer->Quantize(x.view(), kStream));
      EXPECT_EQ(*q.row_wise->scales.tensor_scale_inv, 1 / (2688 / 240.0f));
      if (rank != 0) return;
      // Of 17 rows there is no transform.
      EXPECT_EQ(*q.column_wise->scales.tensor_scale_inv,
                1 / (rows == 16 ? 2688 / 60.0f : 2688 / 6.0f));
    });
  }
}

TEST(BlockRecipeTest, AnInfinityOfTheTransformIsReportedByName) {
  OneModule module(
      "defaults { all { nvfp4 { random_hadamard: true } } "
      "weight { nvfp4 {} } }");
  ASSERT_THAT(module.Freeze(), IsOk());
  const auto quantizer = ValueOrDie(
      MakeQuantizer(module.state.get(), module.slots.grad, {true, true}));
  TestTensor x = TestTensor::Of(DType::kF16, 16, 1, [](int64_t r, int64_t) {
    return std::string("+++-+------+-+--")[static_cast<size_t>(r)] == '-'
               ? -20000.0f
               : 20000.0f;
  });
  ASSERT_THAT(quantizer->Quantize(x.view(), kStream), IsOk());
  ASSERT_THAT(module.state->EndStep(kStream), IsOk());
  EXPECT_THAT(module.state->NonFiniteSlots(kStream),
              IsOkAndHolds(ElementsAre("m/grad")));
}

TEST(BlockRecipeTest, RowAmaxesOfTheGroup) {
  BlockRanks ranks(2, "rowwise { amax_group: \"tp\" }");
  RunRanks(2, [&](int rank) {
    const auto quantizer = ranks.Make(rank, {true, false});
    // Row 0: 1 and 7; row 1: 14 and 2.
    TestTensor x(DType::kF32, 2, 1);
    x.Set(0, 0, rank == 0 ? 1.0f : 7.0f);
    x.Set(1, 0, rank == 0 ? 14.0f : 2.0f);
    const QuantizedTensor q =
        ValueOrDie(quantizer->Quantize(x.view(), kStream));
    const float* scale_inv = q.row_wise->scale_inv.as<float>();
    EXPECT_EQ(scale_inv[0], 1 / 64.0f);
    EXPECT_EQ(scale_inv[1], 1 / 32.0f);
  });
}

// The ranks' columns are different ones, and not equally many; a rank that has
// none joins with the rows of the others.
TEST(BlockRecipeTest, ColumnAmaxesAreTheRanksOwn) {
  BlockRanks ranks(3, "rowwise { amax_group: \"tp\" }");
  for (const bool both : {false, true}) {
    RunRanks(3, [&](int rank) {
      const auto quantizer = ranks.Make(rank, {true, both || rank == 0});
      const float value = rank == 0 ? 1.0f : rank == 1 ? 7.0f : 0.0f;
      const int64_t cols = rank == 0 ? 3 : rank == 1 ? 5 : 0;
      TestTensor x = Filled(DType::kBF16, 2, cols, value);
      const QuantizedTensor q =
          ValueOrDie(quantizer->Quantize(x.view(), kStream));
      EXPECT_THAT(StoredScales(*q.row_wise),
                  ElementsAre(oracle::BitsOfFloat(1 / 64.0f),
                              oracle::BitsOfFloat(1 / 64.0f)));
      if (!q.column_wise) return;
      const std::vector<uint32_t> columns = StoredScales(*q.column_wise);
      EXPECT_EQ(columns.size(), static_cast<size_t>(cols));
      EXPECT_THAT(columns, Each(oracle::BitsOfFloat(value / 448)));
    });
  }
}

// Nobody waits: the ranks' rows are compared.
TEST(BlockRecipeTest, OtherNumbersOfRowsAreRefusedOnEveryRank) {
  for (const int64_t rows : {0, 1, 3}) {
    BlockRanks ranks(2, "rowwise { amax_group: \"tp\" }");
    RunRanks(2, [&](int rank) {
      const auto quantizer = ranks.Make(rank, {true, false});
      const int64_t own = rank == 0 ? 2 : rows;
      TestTensor x = Filled(DType::kF32, own, 4, 7);
      QuantizedTensor q = ValueOrDie(quantizer->MakeEmpty(own, 4));
      EXPECT_THAT(
          quantizer->QuantizeInto(x.view(), &q, nullptr, kStream),
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   AllOf(HasSubstr("amax_group \"tp\""),
                         HasSubstr("rank 0 brings 3 words"),
                         HasSubstr(absl::StrCat("rank 1 brings ", rows + 1)),
                         HasSubstr(absl::StrCat("for m/input ", own, "x4")))));
      EXPECT_THAT(StoredScales(*q.row_wise), Each(oracle::BitsOfFloat(1.0f)));
      EXPECT_EQ(ranks.Observed(rank), 0u);
    });
  }
}

}  // namespace
}  // namespace scalekeeper
