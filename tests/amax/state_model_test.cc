// Random sequences of everything that a job does to a state, compared with a
// model (tests/amax/state_model.h) after every call.
#include "tests/amax/state_model.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/checkpoint.h"
#include "amax/in_process_communicator.h"
#include "amax/load_state.h"
#include "amax/scale_snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/flaky_communicator.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string>& Modules() {
  static const auto& modules = *new std::vector<std::string>{"a", "b"};
  return modules;
}

using Random = std::mt19937;

uint32_t Below(Random& random, uint32_t n) {
  return static_cast<uint32_t>(random() % n);
}

ModelRecipe RandomModelRecipe(Random& random) {
  ModelRecipe recipe;
  int64_t from_step = 0;
  const uint32_t phases = 1 + Below(random, 4);
  for (uint32_t p = 0; p < phases; ++p) {
    ModelRecipe::Phase phase;
    phase.from_step = from_step;
    // No GEMM takes two E5M2 operands.
    const uint32_t e5m2 = Below(random, 4);
    uint32_t index = 0;
    for (const char* role : {"input", "weight", "grad"}) {
      ModelPolicy policy;
      policy.delayed = p == 0 || Below(random, 4) != 0;
      policy.e5m2 = index++ == e5m2;
      policy.margin = static_cast<int>(Below(random, 3));
      policy.history_len = 1 + Below(random, 6);
      if (Below(random, 2) == 0) {
        policy.algo = DelayedOracle::Algo::kMostRecent;
      }
      policy.non_finite =
          static_cast<DelayedOracle::NonFinite>(Below(random, 3));
      policy.measure_first = Below(random, 2) == 0;
      phase.roles[role] = policy;
    }
    recipe.phases.push_back(phase);
    from_step += 1 + Below(random, 5);
  }
  return recipe;
}

std::string PolicyText(const std::string& role, const ModelPolicy& policy) {
  if (!policy.delayed) return absl::StrCat(role, " { high_precision { } } ");
  const char* const non_finite[] = {"SKIP", "FREEZE", "BACK_OFF"};
  return absl::StrCat(
      role, " { format: ", policy.e5m2 ? "E5M2" : "E4M3",
      " delayed { margin: ", policy.margin,
      " amax_history_len: ", policy.history_len, " amax_compute_algo: ",
      policy.algo == DelayedOracle::Algo::kMax ? "MAX" : "MOST_RECENT",
      " non_finite_amax: ", non_finite[static_cast<int>(policy.non_finite)],
      " first_step: ", policy.measure_first ? "MEASURE" : "UNIT", " } } ");
}

Recipe ParseModelRecipe(const ModelRecipe& model) {
  std::string text;
  for (size_t p = 0; p < model.phases.size(); ++p) {
    absl::StrAppend(&text, p == 0
                               ? "defaults { "
                               : absl::StrCat("phase { from_step: ",
                                              model.phases[p].from_step, " "));
    for (const auto& [role, policy] : model.phases[p].roles) {
      absl::StrAppend(&text, PolicyText(role, policy));
    }
    absl::StrAppend(&text, "}\n");
  }
  return ParseRecipe(text +
                     "rule { module: \"b\" amax_reduction { enabled: "
                     "false } }");
}

struct KnownRecipe {
  ModelRecipe model;
  Recipe recipe;
};

// A job and its model.
class Walk {
 public:
  Walk(const std::vector<KnownRecipe>* recipes, uint32_t seed)
      : recipes_(*recipes),
        random_(seed),
        known_(&recipes_[Below(random_, Count())]),
        model_(&known_->model, Modules()) {
    Begin();
  }

  void Go() {
    const uint32_t calls = 5 + Below(random_, 35);
    for (uint32_t i = 0; i < calls; ++i) {
      const std::string call = Call();
      trail_ += call + "; ";
      Compare();
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "after " << trail_;
        return;
      }
    }
  }

 private:
  uint32_t Count() const { return static_cast<uint32_t>(recipes_.size()); }

  void Begin() {
    group_ = CreateInProcessCommunicators(1);
    flaky_ = std::make_unique<FlakyCommunicator>(group_[0].get());
    RecipeStateOptions options;
    options.groups["default"] = flaky_.get();
    state_ = ValueOrDie(RecipeState::Create(known_->recipe, options));
    for (const std::string& module : Modules()) {
      const ModuleSlots slots = ValueOrDie(state_->AddModule(module));
      ids_[module + "/input"] = slots.input;
      ids_[module + "/weight"] = slots.weight;
      ids_[module + "/grad"] = slots.grad;
    }
    ASSERT_THAT(state_->Freeze(), IsOk());
  }

  std::string RandomSlot() {
    auto it = ids_.begin();
    std::advance(it, Below(random_, static_cast<uint32_t>(ids_.size())));
    return it->first;
  }

  uint32_t RandomBits() {
    switch (Below(random_, 16)) {
      case 0:
        return 0x7FC00000u;  // NaN
      case 1:
        return 0x7F800000u;  // inf
      case 2:
        return Below(random_, 2) == 0 ? 0u : 1u;  // 0, the smallest subnormal
      case 3:
        return 0x7F7FFFFFu;  // FLT_MAX
      default:
        return FloatBits(static_cast<float>(1 + Below(random_, 4096)) / 64);
    }
  }

  void ObserveSome() {
    const std::string slot = RandomSlot();
    const uint32_t bits = RandomBits();
    Observe(state_->View(ids_[slot]), bits);
    model_.Observe(slot, bits);
    observed_.emplace_back(slot, bits);
  }

  std::string Call() {
    switch (Below(random_, 24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        for (uint32_t i = 0; i <= Below(random_, 8); ++i) ObserveSome();
        return "observe";
      case 6: {
        const uint32_t skip = 1;
        EXPECT_THAT(state_->EndStep(Stream{}, &skip), IsOk());
        model_.EndStep(/*skip=*/true);
        observed_.clear();
        return "skipped step";
      }
      case 7:
        return Fail();
      case 8: {
        // A second forward: the same values.
        for (const auto& [slot, bits] : observed_) {
          Observe(state_->View(ids_[slot]), bits);
        }
        return "recompute";
      }
      case 9:
        EXPECT_THAT(state_->Pack(Stream{}), IsOk());
        EXPECT_THAT(state_->CancelPack(), IsOk());
        return "cancelled pack";
      case 10:
      case 11: {
        const int64_t step = Below(random_, 18);
        EXPECT_THAT(state_->SetStep(step), IsOk());
        model_.SetStep(step);
        return absl::StrCat("SetStep ", step);
      }
      case 12:
      case 13:
        return Restore();
      case 14:
        EXPECT_THAT(state_->ClearFlags(Stream{}), IsOk());
        model_.ClearFlags();
        return "ClearFlags";
      case 15:
        if (Below(random_, 2) != 0) return Step();  // loads take time
        if (Below(random_, 2) == 0) {
          Load(known_);
          return "save, load";
        }
        Load(&recipes_[Below(random_, Count())]);
        return "save, load under another recipe";
      case 16:
        snapshot_ = ValueOrDie(ScaleSnapshot::Take(*state_, Stream{}));
        snapshot_scales_.clear();
        for (const auto& [name, slot] : model_.slots()) {
          snapshot_scales_[ids_[name].value] = slot.delayed.scale;
        }
        return "snapshot";
      case 17:
        return Below(random_, 4) == 0 ? ResetOne() : Step();
      default:
        return Step();
    }
  }

  std::string Step() {
    EXPECT_THAT(state_->EndStep(Stream{}), IsOk());
    model_.EndStep(/*skip=*/false);
    observed_.clear();
    return "step";
  }

  std::string Fail() {
    flaky_->fail_call = flaky_->calls();
    EXPECT_THAT(state_->EndStep(Stream{}),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("injected")));
    return "failed step";
  }

  std::string Restore() {
    const absl::Status status = state_->RestorePrevious(Stream{});
    if (model_.can_restore()) {
      EXPECT_THAT(status, IsOk());
      model_.Restore();
      observed_.clear();
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("is not kept")));
    }
    return "RestorePrevious";
  }

  void Load(const KnownRecipe* known) {
    const std::string bytes =
        ValueOrDie(EncodeState(ValueOrDie(SaveState(*state_, Stream{}))));
    known_ = known;
    state_.reset();
    Begin();
    EXPECT_THAT(LoadState(ValueOrDie(DecodeState(bytes)), LoadOptions(),
                          Stream{}, state_.get()),
                IsOk());
    model_.Load(&known_->model);
  }

  std::string ResetOne() {
    const std::string& module = Modules()[Below(random_, 2)];
    EXPECT_THAT(ResetObservations({module}, Stream{}, state_.get()), IsOk());
    model_.Reset(module);
    observed_.clear();
    return absl::StrCat("reset ", module);
  }

  void Compare() {
    EXPECT_EQ(state_->step(), model_.step());
    EXPECT_EQ(state_->active_phase(), static_cast<int>(model_.phase()));
    EXPECT_EQ(state_->counters().updates, model_.updates());
    EXPECT_EQ(state_->counters().collectives, model_.updates());
    EXPECT_EQ(state_->counters().skipped, model_.skipped());
    std::vector<std::string> non_finite;
    for (const auto& [name, want] : model_.slots()) {
      const SlotId slot = ids_[name];
      const SlotView view = state_->View(slot);
      EXPECT_EQ(FloatBits(*view.scale), FloatBits(want.delayed.scale)) << name;
      EXPECT_EQ(FloatBits(*view.scale_inv), FloatBits(want.delayed.scale_inv()))
          << name;
      EXPECT_EQ(*view.measure, want.delayed.measure ? 1u : 0u) << name;
      EXPECT_EQ(*view.amax, want.amax) << name;
      EXPECT_EQ(ValueOrDie(state_->Window(slot, Stream{})),
                std::vector<uint32_t>(want.delayed.window.begin(),
                                      want.delayed.window.end()))
          << name;
      if (want.delayed.non_finite_steps != 0) non_finite.push_back(name);
    }
    EXPECT_THAT(ValueOrDie(state_->NonFiniteSlots(Stream{})),
                ::testing::UnorderedElementsAreArray(non_finite));
    for (const auto& [slot, scale] : snapshot_scales_) {
      EXPECT_EQ(*snapshot_.View({slot}).scale, scale) << "of a snapshot";
    }
  }

  const std::vector<KnownRecipe>& recipes_;
  Random random_;
  const KnownRecipe* known_;
  StateModel model_;
  std::vector<std::unique_ptr<Communicator>> group_;
  std::unique_ptr<FlakyCommunicator> flaky_;
  std::unique_ptr<RecipeState> state_;
  std::map<std::string, SlotId> ids_;
  std::vector<std::pair<std::string, uint32_t>> observed_;  // in this step
  ScaleSnapshot snapshot_;
  std::map<int32_t, float> snapshot_scales_;
  std::string trail_;
};

#ifdef __SANITIZE_ADDRESS__
constexpr uint32_t kJobs = 2'000;  // it is several times slower
#else
constexpr uint32_t kJobs = 10'000;
#endif

TEST(StateModelTest, RandomJobsAreAsTheModelSays) {
  Random random(1);
  std::vector<KnownRecipe> recipes;
  for (int i = 0; i < 40; ++i) {
    const ModelRecipe model = RandomModelRecipe(random);
    recipes.push_back({model, ParseModelRecipe(model)});
  }
  for (uint32_t seed = 0; seed < kJobs; ++seed) {
    Walk walk(&recipes, seed);
    walk.Go();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace scalekeeper
