// Ten thousand random lives of a state, next to a map of slots that is slow and
// plain: observe, step, skip, recompute, undo, save, load, load under another
// recipe, begin anew. After every call both hold the same.
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/checkpoint.h"
#include "amax/load_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/delayed_oracle.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

// A sanitizer makes each life ten times longer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLives = 1000;
#else
constexpr int kLives = 10000;
#endif
constexpr int kCalls = 14;
const std::vector<std::string> kModules = {"a", "b.2", "b.10"};

// The recipes that a life can be under: the same modules and format, all other
// options different.
struct Variant {
  std::string text;
  size_t history_len;
  int margin;
  DelayedOracle::Algo algo;
  DelayedOracle::NonFinite non_finite;
};

const std::vector<Variant>& Variants() {
  using Algo = DelayedOracle::Algo;
  using NonFinite = DelayedOracle::NonFinite;
  static const auto* const variants = new std::vector<Variant>{
      {"amax_history_len: 4", 4, 0, Algo::kMax, NonFinite::kSkip},
      {"amax_history_len: 1 margin: 2 non_finite_amax: FREEZE", 1, 2,
       Algo::kMax, NonFinite::kFreeze},
      {"amax_history_len: 7 amax_compute_algo: MOST_RECENT "
       "non_finite_amax: BACK_OFF",
       7, 0, Algo::kMostRecent, NonFinite::kBackOff},
      {"amax_history_len: 3 margin: 1 non_finite_amax: FREEZE "
       "amax_compute_algo: MOST_RECENT",
       3, 1, Algo::kMostRecent, NonFinite::kFreeze},
  };
  return *variants;
}

// Of the variants; parsed once.
const std::vector<Recipe>& Recipes() {
  static const auto* const recipes = [] {
    auto* const parsed = new std::vector<Recipe>;
    for (const Variant& variant : Variants()) {
      parsed->push_back(ParseRecipe(DelayedRecipe(variant.text)));
    }
    return parsed;
  }();
  return *recipes;
}

struct ModelSlot {
  DelayedOracle oracle;
  uint32_t pending = 0;
};

struct Model {
  std::map<std::string, ModelSlot> slots;
  int64_t step = 0;

  void Use(const Variant& variant) {
    for (auto& [name, slot] : slots) {
      slot.oracle.history_len = variant.history_len;
      slot.oracle.margin = variant.margin;
      slot.oracle.algo = variant.algo;
      slot.oracle.non_finite = variant.non_finite;
      while (slot.oracle.window.size() > variant.history_len) {
        slot.oracle.window.pop_front();
      }
    }
  }
  void EndStep(bool skip) {
    for (auto& [name, slot] : slots) {
      if (!skip) slot.oracle.Step(slot.pending);
      slot.pending = 0;
    }
    ++step;
  }
  void Reset(const std::string& module) {
    for (auto& [name, slot] : slots) {
      if (name.rfind(module + "/", 0) != 0) continue;
      slot.oracle.window.clear();
      slot.oracle.scale = 1;
      slot.oracle.measure = true;
      slot.oracle.non_finite_steps = 0;
      slot.pending = 0;
    }
  }
};

class Life {
 public:
  explicit Life(unsigned seed) : random_(seed) {
    for (const std::string& module : kModules) {
      for (Role role : kRoles) {
        model_.slots[absl::StrCat(module, "/", Name(role))] = {};
      }
    }
    variant_ = Draw(Variants().size());
    model_.Use(Variants()[variant_]);
    Make();
  }

  void Call() {
    switch (Draw(10)) {
      case 0:
      case 1:
      case 2:
        return Observe();
      case 3:
      case 4:
        return Step(/*skip=*/false);
      case 5:
        return Step(/*skip=*/true);
      case 6:
        return Undo();
      case 7:
        return Save();
      case 8:
        return Load();
      default:
        return Reset();
    }
  }

  void ExpectTheSame() {
    const StateImage image = ValueOrDie(SaveState(*state_, Stream{}));
    ASSERT_EQ(image.step, model_.step) << log_;
    for (const SlotImage& slot : image.slots) {
      const ModelSlot& wanted = model_.slots.at(slot.name);
      const DelayedImage& got = *slot.delayed;
      ASSERT_EQ(got.scale_bits, FloatBits(wanted.oracle.scale))
          << slot.name << log_;
      ASSERT_EQ(got.window, std::vector<uint32_t>(wanted.oracle.window.begin(),
                                                  wanted.oracle.window.end()))
          << slot.name << log_;
      ASSERT_EQ(got.measure, wanted.oracle.measure) << slot.name << log_;
      ASSERT_EQ(slot.amax_bits, wanted.pending) << slot.name << log_;
      ASSERT_EQ(static_cast<int>(slot.non_finite_steps),
                wanted.oracle.non_finite_steps)
          << slot.name << log_;
    }
  }

 private:
  size_t Draw(size_t count) { return random_() % count; }

  // A state of its own, with its modules in another order.
  void Make() {
    state_ = ValueOrDie(RecipeState::Create(Recipes()[variant_], {}));
    ids_.clear();
    const size_t first = Draw(kModules.size());
    for (size_t i = 0; i < kModules.size(); ++i) {
      const std::string& module = kModules[(first + i) % kModules.size()];
      const ModuleSlots slots = ValueOrDie(state_->AddModule(module));
      for (Role role : kRoles) {
        ids_[absl::StrCat(module, "/", Name(role))] = slots.slot(role);
      }
    }
    ASSERT_THAT(state_->Freeze(), IsOk());
    before_.reset();
  }
  // Several at once; the same again is the same (recomputation).
  void Observe() {
    log_ += " observe";
    for (auto& [name, slot] : model_.slots) {
      if (Draw(2) == 0) continue;
      const size_t kind = Draw(12);
      const uint32_t bits =
          kind == 0   ? 0x7F800000u
          : kind == 1 ? 0x7FC00000u
                      : FloatBits(static_cast<float>(Draw(4096)) / 64.0f);
      for (size_t times = 1 + Draw(2); times > 0; --times) {
        scalekeeper::Observe(state_->View(ids_.at(name)), bits);
      }
      slot.pending = std::max(slot.pending, bits);
    }
  }
  void Step(bool skip) {
    log_ += skip ? " skip" : " step";
    const uint32_t flag = skip ? 1 : 0;
    before_ = model_;
    ASSERT_THAT(state_->EndStep(Stream{}, &flag), IsOk());
    model_.EndStep(skip);
  }
  void Undo() {
    log_ += " undo";
    const absl::Status status = state_->RestorePrevious(Stream{});
    ASSERT_EQ(status.ok(), before_.has_value()) << status << log_;
    if (!before_.has_value()) return;
    model_ = *before_;
    for (auto& [name, slot] : model_.slots) slot.pending = 0;
    before_.reset();
  }
  void Save() {
    log_ += " save";
    saved_ = {
        model_,
        ValueOrDie(EncodeState(ValueOrDie(SaveState(*state_, Stream{}))))};
  }
  void Load() {
    if (!saved_.has_value()) return;
    if (Draw(2) == 0) {
      variant_ = Draw(Variants().size());
      Make();
    }
    log_ += absl::StrCat(" load under ", variant_);
    ASSERT_THAT(LoadState(ValueOrDie(DecodeState(saved_->second)),
                          LoadOptions(), Stream{}, state_.get()),
                IsOk());
    model_ = saved_->first;
    model_.Use(Variants()[variant_]);
    before_.reset();
  }
  void Reset() {
    const std::string& module = kModules[Draw(kModules.size())];
    log_ += " reset";
    ASSERT_THAT(ResetObservations({module}, Stream{}, state_.get()), IsOk());
    model_.Reset(module);
    before_.reset();
  }

  std::mt19937 random_;
  size_t variant_ = 0;
  Model model_;
  std::optional<Model> before_;  // the last step, where it can be undone
  std::optional<std::pair<Model, std::string>> saved_;
  std::unique_ptr<RecipeState> state_;
  std::map<std::string, SlotId> ids_;
  std::string log_ = ", after:";
};

TEST(ModelTest, TenThousandLives) {
  for (int life = 0; life < kLives; ++life) {
    Life l(static_cast<unsigned>(life));
    for (int call = 0; call < kCalls; ++call) {
      l.Call();
      l.ExpectTheSame();
      if (::testing::Test::HasFatalFailure()) {
        FAIL() << "in life " << life << ", call " << call;
      }
    }
  }
}

}  // namespace
}  // namespace scalekeeper
