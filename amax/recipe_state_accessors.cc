// RecipeState's calls that tell what was declared, without a copy.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/recipe_state.h"
#include "amax/recipe_state_rep.h"
#include "base/status_macros.h"

namespace scalekeeper {

using internal::DieOfMisuse;

bool RecipeState::frozen() const { return rep_->frozen; }
const Recipe& RecipeState::recipe() const { return rep_->recipe; }
Device RecipeState::device() const { return rep_->options.device; }
StepCounters RecipeState::counters() const { return rep_->counters; }
std::vector<std::string> RecipeState::groups() const {
  return frozen() ? rep_->table.groups() : std::vector<std::string>();
}
int64_t RecipeState::generation() const { return rep_->generation; }

bool RecipeState::Has(SlotId slot) const {
  return rep_->Knows(slot) && !rep_->table.removed(slot.value);
}

absl::StatusOr<ModuleSlots> RecipeState::FindModule(
    absl::string_view module) const {
  SK_ASSIGN_OR_RETURN(const auto slots, rep_->table.FindModule(module));
  return ModuleSlots{{slots[0]}, {slots[1]}, {slots[2]}};
}

size_t RecipeState::slot_count() const { return rep_->table.size(); }

const std::string& RecipeState::name(SlotId slot) const {
  return rep_->table.name(rep_->CheckedSlot(slot, "name"));
}

const std::vector<Policy>& RecipeState::policies(SlotId slot) const {
  if (!frozen()) DieOfMisuse("policies before Freeze: call Freeze first");
  return rep_->table.policies(rep_->CheckedSlot(slot, "policies"));
}

const Policy& RecipeState::policy(SlotId slot) const {
  return policies(slot)[static_cast<size_t>(active_phase())];
}

int RecipeState::active_phase() const {
  return frozen() ? rep_->phases.active_phase()
                  : rep_->recipe.ActivePhase(rep_->step_before_freeze);
}

const GemmPolicy& RecipeState::gemm_policy(absl::string_view module,
                                           Gemm gemm) const {
  if (!frozen()) DieOfMisuse("gemm_policy before Freeze: call Freeze first");
  const GemmPolicy* policy =
      rep_->table.gemm_policy(active_phase(), module, gemm);
  if (policy == nullptr) {
    DieOfMisuse(absl::StrCat("gemm_policy: module \"", module,
                             "\" was not added to this RecipeState"));
  }
  return *policy;
}

AmaxGroup* RecipeState::amax_group(absl::string_view name) const {
  const auto it = rep_->amax_groups.find(name);
  return it == rep_->amax_groups.end() ? nullptr : it->second.get();
}

bool RecipeState::inference() const { return rep_->options.inference; }

const int64_t* RecipeState::StepWord() const {
  if (!frozen()) return nullptr;
  return &rep_->StateArena().view().step->step;
}

SlotView RecipeState::View(SlotId slot) const {
  if (!frozen() || !Has(slot)) return {};
  const int32_t index = rep_->table.arena_index(slot.value);
  if (index < 0) return {};
  const ArenaView& view = rep_->StateArena().view();
  SlotView words;
  words.amax = view.amax + rep_->arena->view().descriptors[index].amax_index;
  if (rep_->table.delayed_in_some_phase(slot.value)) {
    words.scale = view.scale + index;
    words.scale_inv = view.scale_inv + index;
    words.measure = view.measure + index;
  }
  return words;
}

}  // namespace scalekeeper
