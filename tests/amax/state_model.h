// A model of RecipeState on one rank, for tests that compare the two step by
// step: a map of slots and plain copies of it. It is written from the
// definition and includes nothing of the project but the oracle for one slot.
//
// What the copies are for: a step can be undone once (`before_`), and several
// changes of phase between two steps count as the last one alone (`base_`).
#ifndef SCALEKEEPER_TESTS_AMAX_STATE_MODEL_H_
#define SCALEKEEPER_TESTS_AMAX_STATE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/delayed_oracle.h"

namespace scalekeeper {

// What a recipe says about a role in a phase.
struct ModelPolicy {
  bool delayed = true;  // else high precision
  bool e5m2 = false;
  int margin = 0;
  size_t history_len = 1;
  DelayedOracle::Algo algo = DelayedOracle::Algo::kMax;
  DelayedOracle::NonFinite non_finite = DelayedOracle::NonFinite::kSkip;
  bool measure_first = true;

  double format_max() const { return e5m2 ? 57344 : 448; }
};

// Of the three roles, per phase; the first phase delays all of them.
struct ModelRecipe {
  struct Phase {
    int64_t from_step = 0;
    std::map<std::string, ModelPolicy> roles;  // "input", "weight", "grad"
  };
  std::vector<Phase> phases;

  size_t ActivePhase(int64_t step) const {
    size_t active = 0;
    for (size_t p = 0; p < phases.size(); ++p) {
      if (phases[p].from_step <= step) active = p;
    }
    return active;
  }
};

struct ModelSlot {
  std::string role;
  bool in_use = true;
  DelayedOracle delayed;  // of the last policy that was delayed
  uint32_t amax = 0;
};

class StateModel {
 public:
  // Slots are called "module/role".
  StateModel(const ModelRecipe* recipe, const std::vector<std::string>& modules)
      : recipe_(recipe) {
    for (const std::string& module : modules) {
      for (const auto& [role, policy] : recipe->phases[0].roles) {
        ModelSlot& slot = now_.slots[module + "/" + role];
        slot.role = role;
        Adopt(policy, &slot.delayed);
        slot.delayed.measure = policy.measure_first;
      }
    }
    base_ = now_;
  }

  const std::map<std::string, ModelSlot>& slots() const { return now_.slots; }
  int64_t step() const { return now_.step; }
  size_t phase() const { return now_.phase; }
  int64_t updates() const { return now_.updates; }
  int64_t skipped() const { return now_.skipped; }
  bool can_restore() const { return before_.has_value(); }

  void Observe(const std::string& slot, uint32_t bits) {
    uint32_t& amax = now_.slots[slot].amax;
    amax = std::max(amax, bits & 0x7FFFFFFFu);
  }

  void EndStep(bool skip) {
    before_ = now_;
    for (auto& [name, slot] : now_.slots) {
      if (slot.in_use && !skip) slot.delayed.Step(slot.amax);
      slot.amax = 0;
    }
    ++now_.step;
    ++now_.updates;
    if (skip) ++now_.skipped;
    base_ = now_;
    SwitchTo(recipe_->ActivePhase(now_.step));
  }

  void SetStep(int64_t step) {
    now_.step = step;
    if (recipe_->ActivePhase(step) == now_.phase) return;
    // From where the last step ended; what was observed since stays.
    for (auto& [name, slot] : base_.slots) slot.amax = now_.slots[name].amax;
    now_.slots = base_.slots;
    now_.phase = base_.phase;
    SwitchTo(recipe_->ActivePhase(step));
  }

  void Restore() {
    now_ = *before_;
    for (auto& [name, slot] : now_.slots) slot.amax = 0;
    base_ = now_;
    before_.reset();
  }

  void ClearFlags() {
    Clear(&now_);
    Clear(&base_);
    if (before_) Clear(&*before_);
  }

  // Saved and loaded, in a job with another recipe or the same.
  void Load(const ModelRecipe* recipe) {
    const bool same = recipe == recipe_;
    recipe_ = recipe;
    now_.phase = recipe->ActivePhase(now_.step);
    for (auto& [name, slot] : now_.slots) {
      if (!same) LoadSlot(&slot);
    }
    base_ = now_;
    before_.reset();
  }

  void Reset(const std::string& module) {
    for (auto& [name, slot] : now_.slots) {
      if (name != module + "/" + slot.role) continue;
      const ModelPolicy& policy = Delaying(slot.role);
      slot = ModelSlot{slot.role, PolicyOf(slot.role).delayed, {}, 0};
      Adopt(policy, &slot.delayed);
      slot.delayed.measure = policy.measure_first;
    }
    base_ = now_;
    before_.reset();
  }

 private:
  struct Values {
    int64_t step = 0;
    size_t phase = 0;
    int64_t updates = 0;
    int64_t skipped = 0;
    std::map<std::string, ModelSlot> slots;
  };

  static void Clear(Values* values) {
    for (auto& [name, slot] : values->slots) slot.delayed.non_finite_steps = 0;
  }

  static void Adopt(const ModelPolicy& policy, DelayedOracle* slot) {
    slot->fp8_max = policy.format_max();
    slot->margin = policy.margin;
    slot->history_len = policy.history_len;
    slot->algo = policy.algo;
    slot->non_finite = policy.non_finite;
    while (slot->window.size() > slot->history_len) slot->window.pop_front();
  }

  const ModelPolicy& PolicyOf(const std::string& role) const {
    return recipe_->phases[now_.phase].roles.at(role);
  }
  // The present policy, or the first one that is delayed.
  const ModelPolicy& Delaying(const std::string& role) const {
    const ModelPolicy& own = PolicyOf(role);
    return own.delayed ? own : recipe_->phases[0].roles.at(role);
  }

  // The scale of another format, made anew where the window allows it.
  static void Remake(bool measure_first, DelayedOracle* slot) {
    uint32_t selected = 0;
    if (!slot->window.empty()) {
      selected =
          slot->algo == DelayedOracle::Algo::kMax
              ? *std::max_element(slot->window.begin(), slot->window.end())
              : slot->window.back();
    }
    if (selected != 0 && DelayedOracle::Finite(selected)) {
      slot->scale = slot->ScaleOf(DelayedOracle::Value(selected));
      slot->measure = false;
    } else {
      slot->measure = measure_first;
    }
  }

  void SwitchTo(size_t phase) {
    if (phase == now_.phase) return;
    now_.phase = phase;
    for (auto& [name, slot] : now_.slots) {
      const ModelPolicy& policy = PolicyOf(slot.role);
      slot.in_use = policy.delayed;
      if (!policy.delayed) continue;
      const bool reformat = slot.delayed.fp8_max != policy.format_max();
      Adopt(policy, &slot.delayed);
      if (reformat) {
        Remake(policy.measure_first, &slot.delayed);
      } else if (slot.delayed.window.empty()) {
        slot.delayed.measure = policy.measure_first;
      }
    }
  }

  void LoadSlot(ModelSlot* slot) {
    const ModelPolicy& policy = PolicyOf(slot->role);
    DelayedOracle& delayed = slot->delayed;
    slot->in_use = policy.delayed;
    if (!policy.delayed) {
      // Kept as it is, in a window that some phase of this recipe has.
      const bool known = std::any_of(
          recipe_->phases.begin(), recipe_->phases.end(),
          [&](const ModelRecipe::Phase& phase) {
            const ModelPolicy& p = phase.roles.at(slot->role);
            return p.delayed && p.history_len == delayed.history_len;
          });
      if (!known) delayed.history_len = Delaying(slot->role).history_len;
      while (delayed.window.size() > delayed.history_len) {
        delayed.window.pop_front();
      }
      return;
    }
    const bool reformat = delayed.fp8_max != policy.format_max();
    const bool as_new = delayed.window.empty() && delayed.scale == 1;
    Adopt(policy, &delayed);
    if (as_new) delayed.measure = policy.measure_first;
    if (reformat) Remake(policy.measure_first, &delayed);
  }

  const ModelRecipe* recipe_;
  Values now_;
  Values base_;
  std::optional<Values> before_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_STATE_MODEL_H_
