// Replays: scales of a RecipeState bit for bit, and statistics worked out by
// hand.
#include "replay/replay.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/recipe_state.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  EXPECT_THAT(WriteFile(path, text), IsOk());
  return path;
}

const std::vector<std::string> kRecorded = {"tests/data/traces/amax_rank0.csv",
                                            "tests/data/traces/amax_rank1.csv"};
const std::vector<std::string> kHistograms = {
    "tests/data/traces/log2hist_rank0.csv",
    "tests/data/traces/log2hist_rank1.csv"};

LabeledRecipe Parsed(const std::string& text) {
  const auto recipe = Recipe::Parse(text, "test.textproto");
  EXPECT_THAT(recipe, IsOk());
  return {"test", *recipe};
}

absl::StatusOr<ReplayResult> ReplayOf(const std::vector<std::string>& paths,
                                      const std::vector<LabeledRecipe>& recipes,
                                      const ReplayOptions& options = {},
                                      const std::vector<std::string>& h = {}) {
  SK_ASSIGN_OR_RETURN(RankedTrace trace, RankedTrace::Open(paths, h));
  return Replay(&trace, recipes, options);
}

// A RecipeState that lives through both ranks' amaxes: its scale of each slot
// before each update, as bits.
std::vector<std::vector<uint32_t>> LiveScales(const Recipe& recipe) {
  auto trace = RankedTrace::Open(kRecorded, {});
  EXPECT_THAT(trace, IsOk());
  auto state = RecipeState::Create(recipe, {});
  EXPECT_THAT(state, IsOk());
  std::map<std::string, ModuleSlots> modules;
  std::vector<SlotId> slots;
  for (const TraceColumn& column : trace->header().columns) {
    if (modules.count(column.module) == 0) {
      modules.emplace(column.module, *(*state)->AddModule(column.module));
    }
    slots.push_back(modules.at(column.module).slot(column.role));
  }
  EXPECT_THAT((*state)->Freeze(), IsOk());
  std::vector<std::vector<uint32_t>> scales;
  std::vector<TraceStep> steps;
  while (trace->Next(&steps).value_or(false)) {
    EXPECT_THAT((*state)->SetStep(steps[0].step), IsOk());
    std::vector<uint32_t>& row = scales.emplace_back();
    for (size_t c = 0; c < slots.size(); ++c) {
      const SlotView view = (*state)->View(slots[c]);
      row.push_back(view.scale == nullptr ? 0 : BitsFromFloat(*view.scale));
      if (view.amax == nullptr) continue;
      for (const TraceStep& step : steps) {
        *view.amax = std::max(*view.amax, step.amax_bits[c]);
      }
    }
    EXPECT_THAT((*state)->EndStep(Stream{}), IsOk());
  }
  return scales;
}

class BitEqualTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BitEqualTest, EveryScaleIsThatOfARecipeState) {
  const LabeledRecipe recipe = Parsed(GetParam());
  const auto want = LiveScales(recipe.recipe);
  const UpdatePolicy& update = recipe.recipe.update();
  const size_t first_updated =
      static_cast<size_t>(update.interval + update.staleness);
  size_t rows = 0;
  size_t compared = 0;
  ReplayOptions options;
  options.threads = 3;
  options.scales = [&](const TraceBlock& block,
                       const std::vector<float>& scales) {
    for (size_t row = 0; row < block.rows; ++row, ++rows) {
      // Until the first update rank 0's own tensor is measured, which is the
      // quantizer's business, not the state's.
      if (rows < first_updated) continue;
      for (size_t c = 0; c < block.columns; ++c) {
        const float scale = scales[block.at(row, c)];
        if (want[rows][c] == 0 || std::isnan(scale)) continue;
        EXPECT_EQ(BitsFromFloat(scale), want[rows][c])
            << "row " << rows << " column " << c;
        ++compared;
      }
    }
    return absl::OkStatus();
  };
  ASSERT_THAT(ReplayOf(kRecorded, {recipe}, options), IsOk());
  EXPECT_EQ(rows, 1000u);
  EXPECT_GT(compared, 30000u);
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, BitEqualTest,
    ::testing::Values(
        "defaults { all { delayed {} } }",
        "defaults { all { delayed { amax_history_len: 1 margin: 2 } } }",
        "defaults { input { delayed { amax_history_len: 17 } } weight { "
        "current {} } grad { delayed { amax_history_len: 100 "
        "amax_compute_algo: MOST_RECENT } } }",
        "defaults { all { delayed { amax_history_len: 8 } } } "
        "update { interval: 3 }",
        "defaults { all { delayed { amax_history_len: 8 } } } "
        "update { interval: 4 staleness: 1 }",
        // Windows, formats and what is delayed at all change with the steps.
        "defaults { all { delayed { amax_history_len: 64 } } } "
        "phase { from_step: 200 all { delayed { amax_history_len: 16 margin: 1 "
        "} } } "
        "phase { from_step: 333 grad { high_precision {} } } "
        "phase { from_step: 605 all { format: E4M3 delayed { "
        "amax_history_len: 300 } } }"));

TEST(ReplayTest, ThreadsAndCompanyChangeNothing) {
  const LabeledRecipe a = Parsed("defaults { all { delayed {} } }");
  const LabeledRecipe b =
      Parsed("defaults { all { delayed { amax_history_len: 4 } } }");
  ReplayOptions one;
  one.threads = 1;
  ReplayOptions four;
  four.threads = 4;
  const auto alone = ReplayOf(kRecorded, {b}, one, kHistograms);
  const auto together = ReplayOf(kRecorded, {a, b, a}, four, kHistograms);
  ASSERT_THAT(alone, IsOk());
  ASSERT_THAT(together, IsOk());
  const SlotStatistics& x = alone->recipes[0].total;
  const SlotStatistics& y = together->recipes[1].total;
  EXPECT_EQ(x.saturated_tensors, y.saturated_tensors);
  EXPECT_EQ(x.underflow, y.underflow);
  EXPECT_EQ(x.scale_changes, y.scale_changes);
  EXPECT_EQ(x.staleness.Quantile(0.5), y.staleness.Quantile(0.5));
  EXPECT_GT(x.saturated_tensors, 0);
  EXPECT_GT(x.elements, 0);
}

TEST(ReplayTest, CountsWhatSaturatesPerRank) {
  // Scales: measured, then 448/4, 448/4, 448/8 (N=1: the step before).
  const auto result = ReplayOf(
      {Written("a.csv", "step,m/input\n0,4\n1,4\n2,8\n3,8\n4,nan\n5,\n6,0\n"),
       Written("b.csv", "step,m/input\n0,1\n1,1\n2,6\n3,8\n4,1\n5,\n6,0\n")},
      {Parsed("defaults { all { delayed { amax_history_len: 1 } } }")});
  ASSERT_THAT(result, IsOk());
  const SlotStatistics& s = result->recipes[0].slots[0];
  EXPECT_EQ(s.steps, 4);
  EXPECT_EQ(s.tensors, 9);            // rank 1's of step 4 too
  EXPECT_EQ(s.saturated_tensors, 2);  // both ranks' of step 2
  EXPECT_EQ(s.saturated_steps, 1);
  EXPECT_EQ(s.non_finite_steps, 1);
  EXPECT_EQ(result->non_finite, 1);
  EXPECT_EQ(s.scale_changes, 2);  // after steps 0 and 2
  EXPECT_EQ(s.max_staleness, 2);
  EXPECT_EQ(s.min_staleness, 1);
  EXPECT_EQ(s.staleness.total(), 3u);
}

TEST(ReplayTest, MarginGivesRoom) {
  const std::string trace =
      Written("a.csv", "step,m/input\n0,4\n1,8\n2,8.5\n3,16.9\n");
  const auto result = ReplayOf(
      {trace},
      {Parsed("defaults { all { delayed { amax_history_len: 1 } } }"),
       Parsed("defaults { all { delayed { amax_history_len: 1 margin: 1 } } }"),
       Parsed("defaults { all { current {} } }")});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->recipes[0].total.saturated_tensors, 3);
  EXPECT_EQ(result->recipes[1].total.saturated_tensors, 0);
  EXPECT_EQ(result->recipes[2].total.saturated_tensors, 0);
}

TEST(ReplayTest, UnderflowAndSaturatedElementsAreThoseOfTheHistogram) {
  // E4M3, scale 448/448 = 1 from step 0 on: what is at most 2^-10 vanishes,
  // what is above 448 saturates. Buckets 2^-12.., the first with the zeros.
  const std::string trace = Written("a.csv", "step,m/input\n0,448\n1,896\n");
  std::string header = "step,quantizer";
  std::string row = "\n1,m/input";
  for (int e = -12; e <= 9; ++e) {
    absl::StrAppend(&header, ",e", e);
    // 100 zeros, 10 of [2^-11, 2^-10), 10 of [2^-10, 2^-9), 7 of [512, 896].
    absl::StrAppend(&row, ",",
                    e == -12                 ? 100
                    : (e == -11 || e == -10) ? 10
                    : e == 9                 ? 7
                                             : 0);
  }
  const std::string histograms = Written("h.csv", header + row + "\n");
  const auto result = ReplayOf(
      {trace}, {Parsed("defaults { all { delayed {} } }")}, {}, {histograms});
  ASSERT_THAT(result, IsOk());
  const SlotStatistics& s = result->recipes[0].total;
  EXPECT_EQ(s.elements, 27);
  EXPECT_EQ(s.underflow, 10);
  EXPECT_EQ(s.saturated_elements, 7);
  EXPECT_DOUBLE_EQ(s.loss(), 1.0 / 2 + 10.0 / 27);
}

TEST(ReplayTest, WithoutReductionRankZeroCounts) {
  const auto result = ReplayOf({Written("a.csv", "step,m/input\n0,2\n1,2\n"),
                                Written("b.csv", "step,m/input\n0,8\n1,80\n")},
                               {Parsed("defaults { all { delayed {} } } "
                                       "amax_reduction { enabled: false }")});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->recipes[0].total.tensors, 2);
  EXPECT_EQ(result->recipes[0].total.saturated_tensors, 0);
}

TEST(ReplayTest, TheEventOfTheRecordedRunIsFoundAndRecoveryFollowed) {
  const auto result = ReplayOf(
      kRecorded,
      {Parsed("defaults { all { delayed { amax_history_len: 1 } } }"),
       Parsed("defaults { all { delayed { amax_history_len: 1024 } } }")});
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->events.size(), 1u);
  const TraceEvent& event = result->events[0];
  EXPECT_EQ(Name(event), "steps 600-612");
  EXPECT_TRUE(event.loss_jumped);
  EXPECT_NEAR(event.loss_before, 1.0, 0.1);
  EXPECT_NEAR(event.loss_peak, 6.5, 0.1);
  EXPECT_GT(event.columns, 25u);
  EXPECT_LT(event.worst_log2, -8);
  ASSERT_EQ(result->recipes[0].recoveries.size(), 1u);
  const EventRecovery& fast = result->recipes[0].recoveries[0];
  const EventRecovery& slow = result->recipes[1].recoveries[0];
  EXPECT_EQ(fast.judged, 99);
  EXPECT_LT(fast.not_recovered, slow.not_recovered);
}

TEST(ReplayTest, RankSharesAreCounted) {
  const auto result = ReplayOf(
      {Written("a.csv", "step,m/input,m/weight\n0,2,1\n1,2,1\n2,1,1\n"),
       Written("b.csv", "step,m/input,m/weight\n0,1,1\n1,8,1\n2,,1\n")},
      {Parsed("defaults { all { delayed {} } }")});
  ASSERT_THAT(result, IsOk());
  const RankShares& shares = result->rank_shares;
  EXPECT_EQ(shares.entry(0).steps, 2);
  EXPECT_EQ(shares.entry(0).equal, 0);
  EXPECT_EQ(shares.largest(0, 0), 1);
  EXPECT_EQ(shares.largest(0, 1), 1);
  EXPECT_EQ(shares.entry(0).max_ratio, 4);
  EXPECT_EQ(shares.entry(0).log2_sum(), 3);
  EXPECT_EQ(shares.entry(1).equal, 3);
}

TEST(ReplayTest, BinsKeepTheExtremesOfTheWholeTrace) {
  ReplayOptions options;
  options.bins = true;
  std::string text = "step,loss,m/input\n";
  for (int step = 0; step < 2000; ++step) {
    absl::StrAppend(&text, step, ",", step == 1234 ? 9 : 1, ",",
                    step == 777 ? 64 : 1, "\n");
  }
  const auto result =
      ReplayOf({Written("long.csv", text)},
               {Parsed("defaults { all { delayed { amax_history_len: 1 } } }")},
               options);
  ASSERT_THAT(result, IsOk());
  const StepBins& amax = result->amax;
  EXPECT_EQ(amax.rows(), 2000u);
  EXPECT_EQ(amax.rows_per_bin(), 4u);
  ASSERT_EQ(amax.used(), 500u);
  ASSERT_EQ(result->bin_steps.size(), 500u);
  EXPECT_EQ(result->bin_steps[194], 776);
  EXPECT_EQ(amax.at(0, 194).high, 6);
  EXPECT_EQ(amax.at(0, 194).low, 0);
  EXPECT_EQ(amax.at(0, 195).high, 0);
  EXPECT_EQ(result->loss.at(0, 308).high, 9);
  const StepBins& headroom = result->recipes[0].headroom;
  EXPECT_FLOAT_EQ(headroom.at(0, 194).low, -6);  // saturates 64-fold
  EXPECT_FLOAT_EQ(headroom.at(0, 194).high, 6);  // and the step after it
}

TEST(EventDetectorTest, SingleColumnsAndNonFiniteAmaxes) {
  EventDetector detector(1);
  const auto step = [&](int64_t number, float amax) {
    const uint32_t bits = BitsFromFloat(amax);
    return detector.Step(number, std::nullopt, &bits);
  };
  for (int i = 0; i < 20; ++i)
    EXPECT_FALSE(step(10 * i, 1 + 0.1f * static_cast<float>(i % 3)));
  EXPECT_FALSE(step(200, 15));  // less than 16-fold
  EXPECT_TRUE(step(210, 20));
  EXPECT_FALSE(step(220, 1));
  EXPECT_FALSE(step(230, std::nanf("")));  // of the same event
  for (int i = 24; i < 30; ++i) EXPECT_FALSE(step(10 * i, 1));
  EXPECT_TRUE(step(300, INFINITY));
  detector.Finish();
  std::vector<std::string> names;
  for (const TraceEvent& event : detector.events()) {
    names.push_back(Name(event));
  }
  EXPECT_THAT(names, ElementsAre("steps 200-230", "steps 290-300"));
}

TEST(RatioHistogramTest, QuantilesAreWithinABucket) {
  RatioHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  for (int i = 1; i <= 1000; ++i) {
    histogram.Count(static_cast<float>(i) / 1000);
  }
  EXPECT_NEAR(histogram.Quantile(0.5), 0.5, 0.5 / 8);
  EXPECT_NEAR(histogram.Quantile(0.99), 0.99, 1.0 / 8);
  histogram.Count(1e30f);
  EXPECT_NEAR(histogram.Quantile(1), 65536, 65536.0 / 8);
}

}  // namespace
}  // namespace scalekeeper
