// RecipeState against the independent oracle, bit for bit: every mix of window
// length, algorithm, non-finite policy and margin at once in one state, over
// random amaxes with zeros, infinities and NaNs, with steps undone in between.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/recipe_state.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/delayed_oracle.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

struct Config {
  int history_len;
  DelayedOracle::Algo algo;
  DelayedOracle::NonFinite non_finite;
  int margin;
  std::string text;
};

std::vector<Config> AllConfigs() {
  std::vector<Config> configs;
  for (int n : {1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1024}) {
    for (int algo = 0; algo < 2; ++algo) {
      for (int policy = 0; policy < 3; ++policy) {
        for (int margin : {0, 1, 32}) {
          static constexpr const char* kAlgos[] = {"MAX", "MOST_RECENT"};
          static constexpr const char* kPolicies[] = {"SKIP", "FREEZE",
                                                      "BACK_OFF"};
          configs.push_back(
              {n, static_cast<DelayedOracle::Algo>(algo),
               static_cast<DelayedOracle::NonFinite>(policy), margin,
               absl::StrCat("amax_history_len: ", n,
                            " amax_compute_algo: ", kAlgos[algo],
                            " non_finite_amax: ", kPolicies[policy],
                            " margin: ", margin)});
        }
      }
    }
  }
  return configs;
}

// Magnitudes over the whole range of float32, and every special value.
uint32_t RandomAmax(std::mt19937* random) {
  switch ((*random)() % 24) {
    case 0:
      return 0;
    case 1:
      return 0x7F800000u;
    case 2:
      return 0x7FC00001u;
    case 3:
      return 0x80000000u;  // a foreign -0.0
    case 4:
      return 0xC1000000u;  // -8 from a writer that forgot the absolute value
    case 5:
      return (*random)() & 0x7FFFFFFFu;
    case 6:
      return (*random)() % 0x00800000u;  // subnormal
    default:
      return 0x3F000000u + (*random)() % 0x02000000u;
  }
}

TEST(OracleTest, EveryMixOfOptionsMatchesBitForBit) {
  const std::vector<Config> configs = AllConfigs();
  std::string recipe = "defaults { all { delayed { } } }\n";
  for (size_t i = 0; i < configs.size(); ++i) {
    absl::StrAppend(&recipe, "rule { module: \"c", i,
                    "\" all { format: E4M3 delayed { ", configs[i].text,
                    " } } grad { format: E5M2 delayed { ", configs[i].text,
                    " } } }\n");
  }
  auto state = MakeState(recipe);
  std::vector<SlotId> slots;
  std::vector<DelayedOracle> oracles;
  for (size_t i = 0; i < configs.size(); ++i) {
    const ModuleSlots module =
        ValueOrDie(state->AddModule(absl::StrCat("c", i)));
    for (Role role : {Role::kInput, Role::kGrad}) {
      slots.push_back(module.slot(role));
      DelayedOracle oracle;
      oracle.fp8_max = role == Role::kGrad ? 57344 : 448;
      oracle.history_len = static_cast<size_t>(configs[i].history_len);
      oracle.algo = configs[i].algo;
      oracle.non_finite = configs[i].non_finite;
      oracle.margin = configs[i].margin;
      oracles.push_back(oracle);
    }
  }
  ASSERT_THAT(state->Freeze(), IsOk());

  std::mt19937 random(20240601);
  const auto step_state = [&](const std::vector<uint32_t>& amaxes) {
    for (size_t i = 0; i < slots.size(); ++i) {
      // Through a plain store now and then, as a foreign kernel would.
      if (amaxes[i] & 0x80000000u) {
        *state->View(slots[i]).amax = amaxes[i];
      } else {
        Observe(state->View(slots[i]), amaxes[i]);
      }
    }
    ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  };
  std::vector<uint32_t> amaxes(slots.size());
  for (int step = 0; step < 2600; ++step) {
    for (uint32_t& amax : amaxes) amax = RandomAmax(&random);
    if (random() % 16 == 0) {  // a step that is undone leaves no trace
      step_state(amaxes);
      ASSERT_THAT(state->RestorePrevious(Stream{}), IsOk());
      for (uint32_t& amax : amaxes) amax = RandomAmax(&random);
    }
    step_state(amaxes);
    for (size_t i = 0; i < slots.size(); ++i) {
      oracles[i].Step(amaxes[i]);
      const SlotView view = state->View(slots[i]);
      ASSERT_EQ(FloatBits(*view.scale), FloatBits(oracles[i].scale))
          << configs[i / 2].text << ", step " << step;
      ASSERT_EQ(FloatBits(*view.scale_inv), FloatBits(oracles[i].scale_inv()));
      ASSERT_EQ(*view.measure != 0, oracles[i].measure);
    }
    if (step % 97 == 0) {
      for (size_t i = 0; i < slots.size(); ++i) {
        ASSERT_EQ(ValueOrDie(state->Window(slots[i], Stream{})),
                  std::vector<uint32_t>(oracles[i].window.begin(),
                                        oracles[i].window.end()))
            << configs[i / 2].text << ", step " << step;
      }
    }
  }
  const std::string report(state->Check(Stream{}).message());
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_NE(report.find(absl::StrCat("\"", state->name(slots[i]), "\" (",
                                       oracles[i].non_finite_steps, " steps)")),
              std::string::npos)
        << state->name(slots[i]);
  }
}

}  // namespace
}  // namespace scalekeeper
