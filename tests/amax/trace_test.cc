// A real training run (tests/data/traces): two ranks replay all its amaxes,
// through the learning-rate accident of steps 600 to 611, against the oracle.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "amax/in_process_communicator.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/amax/trace_testing.h"
#include "tests/testing/delayed_oracle.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

struct Replay {
  const char* delayed;
  size_t history_len;
  DelayedOracle::Algo algo;
};

class TraceTest : public ::testing::TestWithParam<Replay> {};

TEST_P(TraceTest, EveryScaleOfBothRanksIsTheOracles) {
  const std::vector<Trace> traces = {ReadTrace("traces/amax_rank0.csv"),
                                     ReadTrace("traces/amax_rank1.csv")};
  ASSERT_EQ(traces[0].slots.size(), 99u);
  ASSERT_EQ(traces[0].amaxes.size(), 1000u);
  ASSERT_EQ(traces[1].slots, traces[0].slots);
  auto group = CreateInProcessCommunicators(2);
  const std::string options = GetParam().delayed;
  const std::string recipe = "defaults { all { format: E4M3 delayed { " +
                             options + " } } grad { format: E5M2 delayed { " +
                             options + " } } }";
  RunRanks(2, [&](int rank) {
    const Trace& trace = traces[static_cast<size_t>(rank)];
    RecipeStateOptions state_options;
    state_options.groups["default"] = group[static_cast<size_t>(rank)].get();
    auto state = MakeState(recipe, state_options);
    std::vector<SlotId> slots;
    for (size_t i = 0; i < trace.slots.size(); i += 3) {
      const std::string module =
          trace.slots[i].substr(0, trace.slots[i].find('/'));
      const ModuleSlots added = ValueOrDie(state->AddModule(module));
      for (Role role : kRoles) slots.push_back(added.slot(role));
      ASSERT_EQ(state->name(added.input), trace.slots[i]);
      ASSERT_EQ(state->name(added.grad), trace.slots[i + 2]);
    }
    ASSERT_THAT(state->Freeze(), IsOk());
    std::vector<DelayedOracle> oracles(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      oracles[i].fp8_max = i % 3 == 2 ? 57344 : 448;
      oracles[i].history_len = GetParam().history_len;
      oracles[i].algo = GetParam().algo;
    }
    for (size_t step = 0; step < trace.amaxes.size(); ++step) {
      for (size_t i = 0; i < slots.size(); ++i) {
        Observe(state->View(slots[i]), FloatBits(trace.amaxes[step][i]));
      }
      ASSERT_THAT(state->EndStep(Stream{}), IsOk());
      for (size_t i = 0; i < slots.size(); ++i) {
        const float reduced =
            std::max(traces[0].amaxes[step][i], traces[1].amaxes[step][i]);
        oracles[i].Step(reduced);
        const SlotView view = state->View(slots[i]);
        ASSERT_EQ(FloatBits(*view.scale), FloatBits(oracles[i].scale))
            << trace.slots[i] << " step " << step;
        ASSERT_EQ(FloatBits(*view.scale_inv),
                  FloatBits(oracles[i].scale_inv()));
        // The newest amax fits the format, up to the roundings of the quotient.
        ASSERT_LE(*view.scale * reduced,
                  static_cast<float>(oracles[i].fp8_max) * (1 + 0x1p-22f));
      }
    }
    EXPECT_THAT(state->Check(Stream{}), IsOk());
    EXPECT_EQ(state->counters().collectives, 1000);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, TraceTest,
    ::testing::Values(
        Replay{"amax_history_len: 16", 16, DelayedOracle::Algo::kMax},
        Replay{"amax_history_len: 257", 257, DelayedOracle::Algo::kMax},
        Replay{"amax_history_len: 1024 amax_compute_algo: MOST_RECENT", 1024,
               DelayedOracle::Algo::kMostRecent}));

}  // namespace
}  // namespace scalekeeper
