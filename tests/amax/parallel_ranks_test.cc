// TP 2 x DP 2 x PP 2: eight ranks in groups with different members, each with
// the modules of its stage. Scales and windows against a model that knows only
// who shares what (a map of tests/testing/delayed_oracle.h's slots).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/job_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/delayed_oracle.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 8;
constexpr size_t kHistory = 3;

int Dp(int rank) { return (rank >> 1) & 1; }
int Pp(int rank) { return rank >> 2; }

// Who shares a group with whom, as a number: the same on its members alone.
int GroupOf(const std::string& name, int rank) {
  if (name == "default") return Pp(rank);    // a stage's TP x DP
  if (name == "replicas") return rank & ~2;  // differ in DP alone
  if (name == "expert") return rank & ~1;    // differ in TP alone
  if (name == "tied") return 0;              // all of them
  return rank;                               // nobody else
}

// Modules of a rank and the group of each; "" is not reduced.
std::map<std::string, std::string> ModulesOf(int rank) {
  std::map<std::string, std::string> modules = {
      {"embedding", "tied"},  // the first stage's and the last one's
      {"router", "replicas"},
      {"scratch", ""},
  };
  if (Pp(rank) == 0) {
    modules["layers.0.fc1"] = "default";
    modules["layers.1.fc1"] = "default";
  } else {
    modules["layers.2.fc1"] = "default";
    // Two of four experts per DP rank, in the second stage alone.
    modules["experts." + std::to_string(2 * Dp(rank))] = "expert";
    modules["experts." + std::to_string(2 * Dp(rank) + 1)] = "expert";
  }
  return modules;
}

constexpr char kRecipe[] =
    "rule { module: \"embedding\" amax_reduction { group: \"tied\" } }\n"
    "rule { module: \"router\" amax_reduction { group: \"replicas\" } }\n"
    "rule { module: \"scratch\" amax_reduction { enabled: false } }\n"
    "rule { module: \"experts\\\\..*\" optional: true "
    "amax_reduction { group: \"expert\" } }\n";

// What a rank observes in a step; the same for all who ask.
uint32_t ObservedBits(int64_t step, int rank, const std::string& slot) {
  std::seed_seq seed{static_cast<int>(step), rank,
                     static_cast<int>(std::hash<std::string>()(slot))};
  std::mt19937 random(seed);
  // No tokens: for this slot, or, now and then, for the whole rank.
  if (random() % 4 == 0 || (step + rank) % 5 == 0) return 0;
  if (random() % 50 == 0) return 0x7FC00000u;  // NaN
  return FloatBits(static_cast<float>(random() % 4096 + 1) / 64);
}

bool Skips(int64_t step, int rank) { return (step * 7 + rank) % 23 == 0; }

// [group and its number, slot] -> what the members agree on.
using Model = std::map<std::pair<std::string, std::string>, DelayedOracle>;

std::pair<std::string, std::string> KeyOf(int rank, const std::string& group,
                                          const std::string& slot) {
  return {group + "#" + std::to_string(GroupOf(group, rank)), slot};
}

void StepModel(int64_t step, Model* model) {
  std::map<std::pair<std::string, std::string>, uint32_t> reduced;
  std::map<std::string, bool> skipped;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const auto& [module, group] : ModulesOf(rank)) {
      const auto place = KeyOf(rank, group, "").first;
      skipped[place] = skipped[place] || Skips(step, rank);
      for (const char* role : {"/input", "/weight", "/grad"}) {
        uint32_t& amax = reduced[KeyOf(rank, group, module + role)];
        amax = std::max(amax, ObservedBits(step, rank, module + role));
      }
    }
  }
  for (const auto& [key, amax] : reduced) {
    DelayedOracle& slot = (*model)[key];
    slot.history_len = kHistory;
    if (!skipped[key.first]) slot.Step(amax);
  }
}

// One handle per rank for each group of one name.
std::map<int, std::vector<std::unique_ptr<Communicator>>> MakeGroups(
    const std::string& name, absl::Duration deadline) {
  std::map<int, int> sizes;
  for (int rank = 0; rank < kRanks; ++rank) ++sizes[GroupOf(name, rank)];
  InProcessCommunicatorOptions options;
  options.deadline = deadline;
  std::map<int, std::vector<std::unique_ptr<Communicator>>> groups;
  for (const auto& [number, size] : sizes) {
    groups[number] = CreateInProcessCommunicators(size, options);
  }
  return groups;
}

struct ParallelJob {
  explicit ParallelJob(absl::Duration deadline) {
    for (const char* name : {"default", "replicas", "expert", "tied"}) {
      auto groups = MakeGroups(name, deadline);
      std::map<int, size_t> next;
      for (int rank = 0; rank < kRanks; ++rank) {
        const int number = GroupOf(name, rank);
        handles[rank][name] = std::move(groups[number][next[number]++]);
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      RecipeStateOptions options;
      for (const auto& [module, group] : ModulesOf(rank)) {
        if (!group.empty()) options.groups[group] = handles[rank][group].get();
      }
      states.push_back(
          MakeState(DelayedRecipe("amax_history_len: 3", kRecipe), options));
      for (const auto& [module, group] : ModulesOf(rank)) {
        slots[rank][module] = ValueOrDie(states.back()->AddModule(module));
      }
    }
  }

  std::map<int, std::map<std::string, std::unique_ptr<Communicator>>> handles;
  std::vector<std::unique_ptr<RecipeState>> states;
  std::map<int, std::map<std::string, ModuleSlots>> slots;
};

TEST(ParallelTest, EveryGroupAgreesAndIsRight) {  // I3, I8, G3
  constexpr int64_t kSteps = 40;
  ParallelJob job(absl::Seconds(60));
  std::vector<Model> after(kSteps);
  for (int64_t step = 0; step < kSteps; ++step) {
    if (step > 0) after[step] = after[step - 1];
    StepModel(step, &after[step]);
  }
  RunRanks(kRanks, [&](int rank) {
    RecipeState& state = *job.states[static_cast<size_t>(rank)];
    const std::map<std::string, std::string> modules = ModulesOf(rank);
    const std::map<std::string, ModuleSlots>& slots = job.slots.at(rank);
    ASSERT_THAT(state.Freeze(), IsOk());
    for (int64_t step = 0; step < kSteps; ++step) {
      // Ranks come in any order.
      std::this_thread::sleep_for(
          std::chrono::microseconds((step * 37 + rank * 101) % 300));
      for (const auto& [module, ids] : slots) {
        for (const Role role : {Role::kInput, Role::kWeight, Role::kGrad}) {
          const uint32_t bits =
              ObservedBits(step, rank, state.name(ids.slot(role)));
          if (bits != 0) Observe(state.View(ids.slot(role)), bits);
        }
      }
      const uint32_t skip = Skips(step, rank) ? 1 : 0;
      ASSERT_THAT(state.EndStep(Stream{}, &skip), IsOk());
      for (const auto& [module, ids] : slots) {
        for (const Role role : {Role::kInput, Role::kWeight, Role::kGrad}) {
          const SlotId slot = ids.slot(role);
          const DelayedOracle& want = after[static_cast<size_t>(step)].at(
              KeyOf(rank, modules.at(module), state.name(slot)));
          ASSERT_EQ(FloatBits(ValueOrDie(state.Scale(slot, Stream{}))),
                    FloatBits(want.scale))
              << "rank " << rank << " step " << step << " " << state.name(slot);
          ASSERT_EQ(FloatBits(*state.View(slot).scale_inv),
                    FloatBits(want.scale_inv()));
          ASSERT_EQ(
              ValueOrDie(state.Window(slot, Stream{})),
              std::vector<uint32_t>(want.window.begin(), want.window.end()));
        }
      }
    }
    // One collective per group that the rank is in, whatever was observed.
    EXPECT_EQ(state.counters().collectives, kSteps * (Pp(rank) == 0 ? 3 : 4));
  });
}

TEST(ParallelTest, ARankThatNeverComesEndsAllGroupsInTheirDeadline) {  // I14
  ParallelJob job(absl::Milliseconds(500));
  RunRanks(kRanks, [&](int rank) {
    ASSERT_THAT(job.states[static_cast<size_t>(rank)]->Freeze(), IsOk());
  });
  const absl::Time begin = absl::Now();
  RunRanks(kRanks, [&](int rank) {
    if (rank == 6) return;
    RecipeState& state = *job.states[static_cast<size_t>(rank)];
    EXPECT_THAT(state.EndStep(Stream{}),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("EndStep of step 0, group \""),
                               HasSubstr("did not come within"))));
    EXPECT_EQ(state.step(), 0);
  });
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST(ParallelTest, AModuleThatOneTensorRankLacksIsNamed) {  // I2
  const std::string recipe = DelayedRecipe("", kRecipe);
  auto group = CreateInProcessCommunicators(2);
  RunRanks(2, [&](int rank) {
    RecipeStateOptions options;
    for (const char* name : {"default", "expert", "replicas", "tied"}) {
      options.groups[name] = group[static_cast<size_t>(rank)].get();
    }
    auto state = MakeState(recipe, options);
    for (const char* module : {"embedding", "router", "scratch", "experts.0"}) {
      ASSERT_THAT(state->AddModule(module), IsOk());
    }
    if (rank == 1) {
      ASSERT_THAT(state->AddModule("experts.1"), IsOk());
    }
    EXPECT_THAT(state->Freeze(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("group \"expert\""),
                               HasSubstr("rank 0 lacks \"experts.1/input\""))));
  });
}

// ------------------------------------------------------- sharded weights

// The amax of a rank's part of `weight`; a part may be empty.
float ShardAmax(const std::vector<float>& weight, size_t begin, size_t end) {
  float amax = 0;
  for (size_t i = begin; i < end; ++i) {
    amax = std::max(amax, std::abs(weight[i]));
  }
  return amax;
}

TEST(ShardedWeightsTest, AmaxesOverShardsAreThoseOfTheWhole) {  // I13
  const std::vector<float> weight = {0.5f, -4, 1, 2, -0.25f, 3, -7, 0.1f, 1, 6};
  // Ends of the shards of four ranks, empty ones first, last and between.
  for (const std::vector<size_t>& ends : std::vector<std::vector<size_t>>{
           {3, 6, 9, 10}, {0, 5, 5, 10}, {10, 10, 10, 10}, {0, 0, 0, 10}}) {
    Job job(4, DelayedRecipe(""));
    ExpectAllOk(job.Freeze());
    std::vector<float> amaxes;
    size_t begin = 0;
    for (const size_t end : ends) {
      amaxes.push_back(ShardAmax(weight, begin, end));
      begin = end;
    }
    ExpectAllOk(job.Step(amaxes));
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(job.Scale(rank), 64);
  }
}

// Weights that are synced after the optimizer's step, and activations at the
// end of the backward pass: two states, with one group each or the same.
TEST(ShardedWeightsTest, AStateOfTheirOwnIsSyncedOnItsOwn) {
  Job weights(2, DelayedRecipe("amax_history_len: 1"));
  Job activations(2, DelayedRecipe("amax_history_len: 2"));
  ExpectAllOk(weights.Freeze());
  ExpectAllOk(activations.Freeze());
  for (int step = 0; step < 3; ++step) {
    const float amax = static_cast<float>(1 << step);
    activations.Observe(0, 8);
    activations.Observe(1, 16);
    ExpectAllOk(weights.Step({amax, 0}));  // rank 1's shard is empty
    for (int rank : {0, 1}) {
      EXPECT_EQ(weights.Scale(rank), 448 / amax);
      EXPECT_EQ(activations.state(rank).step(), step);
    }
    ExpectAllOk(activations.Step({0, 0}));
    for (int rank : {0, 1}) EXPECT_EQ(activations.Scale(rank), 28);
  }
}

}  // namespace
}  // namespace scalekeeper
