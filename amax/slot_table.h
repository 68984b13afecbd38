// SlotTable: which modules and slots there are, and what the recipe gives them.
//
// Host-side registry of a RecipeState: filled by AddModule / AddSlot, resolved
// once; immutable afterwards (amax/change_state.h works on a copy). A slot that
// was removed keeps its number and name, takes no part in anything, and comes
// back when it is added again. Only slots whose policy is `delayed`, or scales
// itself, in some phase get a place in the arena, ordered by (group in the
// first phase, natural order of the module's name, role, slot name), unreduced
// ones last (those that are `delayed` in no phase are among them): the order is
// the same on every rank, whatever the order of the Add calls was.
//
// Example:
//   SlotTable table;
//   SK_ASSIGN_OR_RETURN(auto slots, table.AddModule("layers.0.fc1"));
//   SK_RETURN_IF_ERROR(table.Resolve(recipe));
//   table.policies(slots[0])[phase];               // of "layers.0.fc1/input"
#ifndef SCALEKEEPER_AMAX_SLOT_TABLE_H_
#define SCALEKEEPER_AMAX_SLOT_TABLE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "recipe/chip_check.h"
#include "recipe/recipe.h"

namespace scalekeeper {

class SlotTable {
 public:
  // Its slots, by Role. InvalidArgument on an empty or repeated name.
  // `identity`: what the module is, where the name does not tell; ranks compare
  // it.
  absl::StatusOr<std::array<int32_t, 3>> AddModule(
      absl::string_view module, absl::string_view identity = "");
  // Modules "family.0" ... ("family.0.suffix" ...), one behind the other; the
  // first slot. All or none.
  absl::StatusOr<int32_t> AddModules(absl::string_view family, int count,
                                     absl::string_view suffix);
  // Slot "module/name". The module need not have been added.
  absl::StatusOr<int32_t> AddSlot(absl::string_view module,
                                  absl::string_view name, Role role);

  // Those of a layer. NotFound when there is none.
  absl::StatusOr<std::array<int32_t, 3>> FindModule(
      absl::string_view module) const;
  // All slots of the module go. InvalidArgument for one that is not there.
  absl::Status RemoveModule(absl::string_view module);

  // May be called again, after a failure or a change.
  absl::Status Resolve(const Recipe& recipe);

  // After Resolve: whether the chip multiplies what the modules' GEMMs get
  // (recipe/chip_check.h).
  absl::Status CheckChip(const Recipe& recipe, ChipCheckOptions options) const;

  // Removed slots count, too.
  size_t size() const { return slots_.size(); }
  bool removed(int32_t slot) const { return Get(slot).removed; }
  const std::string& name(int32_t slot) const { return Get(slot).name; }
  Role role(int32_t slot) const { return Get(slot).role; }
  const std::string& module(int32_t slot) const {
    return modules_[Get(slot).module];
  }
  // Those with a slot that is not removed.
  std::vector<std::string> modules() const;
  const std::string& identity(int32_t slot) const {
    return identities_[Get(slot).module];
  }

  // After Resolve.
  int phases() const { return resolved_->phases(); }
  // One per phase.
  const std::vector<Policy>& policies(int32_t slot) const {
    return policy_sets_[Get(slot).policy_set];
  }
  // Index of the slot's policies among all distinct ones.
  uint32_t policy_set(int32_t slot) const { return Get(slot).policy_set; }
  size_t policy_set_count() const { return policy_sets_.size(); }
  const std::vector<Policy>& policies_of_set(uint32_t set) const {
    return policy_sets_[set];
  }
  // Index into groups(), or groups().size() when not reduced in that phase.
  uint32_t group(int phase, int32_t slot) const;
  // Null for an unknown module.
  const GemmPolicy* gemm_policy(int phase, absl::string_view module,
                                Gemm gemm) const;

  // Names of the groups that arena slots reduce over in some phase, sorted.
  const std::vector<std::string>& groups() const { return groups_; }
  // Names of the amax_groups that policies name in some phase, sorted.
  const std::vector<std::string>& amax_groups() const { return amax_groups_; }
  // Slots with an amax_group in some phase, in the natural order of their
  // names.
  const std::vector<int32_t>& synced_slots() const { return synced_slots_; }
  // Slots with a place in the arena, in its order.
  const std::vector<int32_t>& arena_slots() const { return arena_slots_; }
  // Whether the slot has a scale and a window.
  bool delayed_in_some_phase(int32_t slot) const { return Get(slot).delayed; }
  // Position in arena_slots(), or -1.
  int32_t arena_index(int32_t slot) const { return Get(slot).arena_index; }

 private:
  struct Slot {
    std::string name;
    uint32_t module = 0;
    Role role = Role::kInput;
    bool extra = false;  // by AddSlot
    bool removed = false;
    bool delayed = false;  // in some phase
    uint32_t policy_set = 0;
    int32_t arena_index = -1;
  };

  const Slot& Get(int32_t slot) const {
    return slots_[static_cast<size_t>(slot)];
  }
  absl::Status CheckNewModule(absl::string_view module) const;
  // The slot of that name, which is new or was removed.
  int32_t Put(std::string name, uint32_t module, Role role, bool extra);
  bool IsThere(absl::string_view slot_name) const;
  std::vector<bool> LiveModules() const;
  const ResolvedModule& Resolved(int phase, size_t module) const {
    return resolved_->at(phase, resolved_rows_[module]);
  }
  uint32_t ModuleIndex(absl::string_view module);
  void ResolvePolicies();
  void ResolveGroups();
  void OrderArena();
  // Sorts by module, role and slot name, after `first_key`.
  void Sort(const std::function<uint32_t(int32_t)>& first_key,
            std::vector<int32_t>* slots) const;

  std::vector<std::string> modules_;
  std::vector<bool> is_layer_;           // by AddModule, parallel to modules_
  std::vector<std::string> identities_;  // parallel to modules_
  absl::flat_hash_map<std::string, uint32_t> module_index_;
  absl::flat_hash_map<std::string, int32_t> slot_index_;
  std::vector<Slot> slots_;

  std::optional<ResolvedModules> resolved_;
  // By module; kNoRow: removed.
  static constexpr size_t kNoRow = SIZE_MAX;
  std::vector<size_t> resolved_rows_;
  std::vector<std::vector<Policy>> policy_sets_;
  std::vector<std::string> groups_;
  std::vector<std::vector<uint32_t>> module_groups_;  // [phase][module]
  std::vector<int32_t> arena_slots_;
  std::vector<std::string> amax_groups_;
  std::vector<int32_t> synced_slots_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_SLOT_TABLE_H_
