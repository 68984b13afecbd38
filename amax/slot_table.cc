#include "amax/slot_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "amax/natural_order.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

// Names are lines and fields of the text that ranks compare.
absl::Status CheckName(absl::string_view call, absl::string_view what,
                       absl::string_view name) {
  const bool control = std::any_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (!control) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(call, ": got ", what, " \"", absl::CHexEscape(name),
                   "\", want a name without control characters"));
}

template <typename Predicate>
bool InSomePhase(const std::vector<Policy>& policies, Predicate predicate) {
  return std::any_of(policies.begin(), policies.end(),
                     [&](const Policy& p) { return predicate(p.scaling); });
}

bool IsDelayed(Scaling scaling) { return scaling == Scaling::kDelayed; }

}  // namespace

uint32_t SlotTable::ModuleIndex(absl::string_view module) {
  const auto [it, inserted] = module_index_.try_emplace(
      std::string(module), static_cast<uint32_t>(modules_.size()));
  if (inserted) {
    modules_.emplace_back(module);
    is_layer_.push_back(false);
    identities_.emplace_back();
  }
  return it->second;
}

int32_t SlotTable::Put(std::string name, uint32_t module, Role role,
                       bool extra) {
  const auto [it, inserted] =
      slot_index_.try_emplace(name, static_cast<int32_t>(slots_.size()));
  if (inserted) slots_.emplace_back();
  Slot& slot = slots_[static_cast<size_t>(it->second)];
  slot.name = std::move(name);
  slot.module = module;
  slot.role = role;
  slot.extra = extra;
  slot.removed = false;
  return it->second;
}

bool SlotTable::IsThere(absl::string_view slot_name) const {
  const auto it = slot_index_.find(slot_name);
  return it != slot_index_.end() && !removed(it->second);
}

std::vector<bool> SlotTable::LiveModules() const {
  std::vector<bool> live(modules_.size());
  for (const Slot& slot : slots_) {
    if (!slot.removed) live[slot.module] = true;
  }
  return live;
}

std::vector<std::string> SlotTable::modules() const {
  const std::vector<bool> live = LiveModules();
  std::vector<std::string> names;
  for (size_t m = 0; m < modules_.size(); ++m) {
    if (live[m]) names.push_back(modules_[m]);
  }
  return names;
}

absl::StatusOr<std::array<int32_t, 3>> SlotTable::FindModule(
    absl::string_view module) const {
  const auto it = module_index_.find(module);
  if (it == module_index_.end() || !is_layer_[it->second]) {
    return absl::NotFoundError(absl::StrCat(
        "there is no module \"", module, "\"", DidYouMean(module, modules())));
  }
  std::array<int32_t, 3> slots;
  for (Role role : kRoles) {
    slots[static_cast<size_t>(role)] =
        slot_index_.find(absl::StrCat(module, "/", Name(role)))->second;
  }
  return slots;
}

absl::Status SlotTable::RemoveModule(absl::string_view module) {
  const auto it = module_index_.find(module);
  bool any = false;
  if (it != module_index_.end()) {
    for (Slot& slot : slots_) {
      if (slot.module != it->second || slot.removed) continue;
      slot.removed = true;
      any = true;
    }
    is_layer_[it->second] = false;
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("RemoveModule: there is no module \"", module, "\"",
                   DidYouMean(module, modules())));
}

absl::Status SlotTable::CheckNewModule(absl::string_view module) const {
  if (module.empty()) {
    return absl::InvalidArgumentError(
        "AddModule: got an empty name, want the module's name");
  }
  SK_RETURN_IF_ERROR(CheckName("AddModule", "module", module));
  const auto known = module_index_.find(module);
  if (known != module_index_.end() && is_layer_[known->second]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AddModule: module \"", module, "\" was added before, want each once"));
  }
  for (Role role : kRoles) {
    if (IsThere(absl::StrCat(module, "/", Name(role)))) {
      return absl::InvalidArgumentError(
          absl::StrCat("AddModule: slot \"", module, "/", Name(role),
                       "\" was added before, want each name once"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> SlotTable::AddModules(absl::string_view family,
                                              int count,
                                              absl::string_view suffix) {
  if (family.empty() || count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("AddModules: got family \"", family, "\", count ", count,
                     ", want a name and at least 1"));
  }
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(
        absl::StrCat(family, ".", i, suffix.empty() ? "" : ".", suffix));
    SK_RETURN_IF_ERROR(CheckNewModule(names.back()));
  }
  const int32_t first = static_cast<int32_t>(slots_.size());
  for (const std::string& name : names) {
    SK_RETURN_IF_ERROR(AddModule(name).status());
  }
  return first;
}

absl::StatusOr<std::array<int32_t, 3>> SlotTable::AddModule(
    absl::string_view module, absl::string_view identity) {
  SK_RETURN_IF_ERROR(CheckNewModule(module));
  SK_RETURN_IF_ERROR(CheckName("AddModule", "identity", identity));
  const uint32_t index = ModuleIndex(module);
  identities_[index] = std::string(identity);
  is_layer_[index] = true;
  std::array<int32_t, 3> slots;
  for (Role role : kRoles) {
    slots[static_cast<size_t>(role)] =
        Put(absl::StrCat(module, "/", Name(role)), index, role, false);
  }
  return slots;
}

absl::StatusOr<int32_t> SlotTable::AddSlot(absl::string_view module,
                                           absl::string_view name, Role role) {
  if (module.empty() || name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("AddSlot: got module \"", module, "\", name \"", name,
                     "\", want neither to be empty"));
  }
  SK_RETURN_IF_ERROR(CheckName("AddSlot", "module", module));
  SK_RETURN_IF_ERROR(CheckName(
      "AddSlot", absl::StrCat("for module \"", module, "\" name"), name));
  std::string full = absl::StrCat(module, "/", name);
  if (IsThere(full)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AddSlot: slot \"", full, "\" was added before, want each name once"));
  }
  return Put(std::move(full), ModuleIndex(module), role, true);
}

absl::Status SlotTable::Resolve(const Recipe& recipe) {
  SK_ASSIGN_OR_RETURN(resolved_, recipe.Resolve(modules()));
  const std::vector<bool> live = LiveModules();
  resolved_rows_.assign(modules_.size(), kNoRow);
  size_t row = 0;
  for (size_t m = 0; m < modules_.size(); ++m) {
    if (live[m]) resolved_rows_[m] = row++;
  }
  ResolvePolicies();
  ResolveGroups();
  OrderArena();
  return absl::OkStatus();
}

absl::Status SlotTable::CheckChip(const Recipe& recipe,
                                  ChipCheckOptions options) const {
  std::vector<bool> has_gemms;
  for (size_t m = 0; m < modules_.size(); ++m) {
    if (resolved_rows_[m] != kNoRow) has_gemms.push_back(is_layer_[m]);
  }
  options.has_gemms = &has_gemms;
  return scalekeeper::CheckChip(recipe.phase_from_steps(), modules(),
                                *resolved_, options);
}

void SlotTable::ResolvePolicies() {
  policy_sets_.clear();
  // Modules share their resolved policies, so pointers tell distinct ones.
  std::map<std::vector<const Policy*>, uint32_t> sets;
  std::vector<const Policy*> key(static_cast<size_t>(phases()));
  Policy removed;
  removed.scaling = Scaling::kHighPrecision;
  for (Slot& slot : slots_) {
    for (int phase = 0; phase < phases(); ++phase) {
      key[static_cast<size_t>(phase)] =
          slot.removed ? &removed
                       : &Resolved(phase, slot.module).policy(slot.role);
    }
    const auto [it, inserted] =
        sets.try_emplace(key, static_cast<uint32_t>(policy_sets_.size()));
    if (inserted) {
      std::vector<Policy> policies;
      for (const Policy* policy : key) policies.push_back(*policy);
      policy_sets_.push_back(std::move(policies));
    }
    slot.policy_set = it->second;
    slot.delayed = InSomePhase(policy_sets_[it->second], IsDelayed);
  }
}

void SlotTable::ResolveGroups() {
  // Modules without a live slot reduce nothing.
  std::vector<bool> reduces(modules_.size());
  for (const Slot& slot : slots_) {
    if (slot.delayed) reduces[slot.module] = true;
  }
  std::set<std::string> names;
  for (int phase = 0; phase < phases(); ++phase) {
    for (size_t m = 0; m < modules_.size(); ++m) {
      if (!reduces[m]) continue;
      const AmaxReductionPolicy& policy = Resolved(phase, m).amax_reduction;
      if (policy.enabled && names.count(policy.group) == 0) {
        names.insert(policy.group);
      }
    }
  }
  groups_.assign(names.begin(), names.end());
  const uint32_t none = static_cast<uint32_t>(groups_.size());
  module_groups_.assign(static_cast<size_t>(phases()),
                        std::vector<uint32_t>(modules_.size(), none));
  for (int phase = 0; phase < phases(); ++phase) {
    for (size_t m = 0; m < modules_.size(); ++m) {
      if (!reduces[m]) continue;
      const AmaxReductionPolicy& policy = Resolved(phase, m).amax_reduction;
      if (!policy.enabled) continue;
      module_groups_[static_cast<size_t>(phase)][m] = static_cast<uint32_t>(
          std::lower_bound(groups_.begin(), groups_.end(), policy.group) -
          groups_.begin());
    }
  }
}

void SlotTable::Sort(const std::function<uint32_t(int32_t)>& first_key,
                     std::vector<int32_t>* slots) const {
  std::vector<uint32_t> by_name(modules_.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::sort(by_name.begin(), by_name.end(), [&](uint32_t a, uint32_t b) {
    return NaturalLess(modules_[a], modules_[b]);
  });
  std::vector<uint32_t> rank(modules_.size());
  for (uint32_t i = 0; i < by_name.size(); ++i) rank[by_name[i]] = i;

  const auto key = [&](int32_t slot) {
    const Slot& s = Get(slot);
    return std::make_tuple(first_key(slot), rank[s.module], s.role, s.extra);
  };
  std::sort(slots->begin(), slots->end(), [&](int32_t a, int32_t b) {
    const auto key_a = key(a), key_b = key(b);
    if (key_a != key_b) return key_a < key_b;
    return NaturalLess(name(a), name(b));
  });
}

void SlotTable::OrderArena() {
  arena_slots_.clear();
  synced_slots_.clear();
  std::set<std::string> amax_groups;
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].arena_index = -1;
    if (slots_[i].delayed ||
        InSomePhase(policy_sets_[slots_[i].policy_set], ScalesItself)) {
      arena_slots_.push_back(static_cast<int32_t>(i));
    }
    bool synced = false;
    for (const Policy& policy : policy_sets_[slots_[i].policy_set]) {
      if (AmaxGroupOf(policy).empty()) continue;
      amax_groups.insert(AmaxGroupOf(policy));
      synced = true;
    }
    if (synced) synced_slots_.push_back(static_cast<int32_t>(i));
  }
  amax_groups_.assign(amax_groups.begin(), amax_groups.end());
  Sort([&](int32_t slot) { return group(/*phase=*/0, slot); }, &arena_slots_);
  Sort([](int32_t) { return 0u; }, &synced_slots_);
  for (size_t i = 0; i < arena_slots_.size(); ++i) {
    slots_[static_cast<size_t>(arena_slots_[i])].arena_index =
        static_cast<int32_t>(i);
  }
}

uint32_t SlotTable::group(int phase, int32_t slot) const {
  if (!Get(slot).delayed) return static_cast<uint32_t>(groups_.size());
  return module_groups_[static_cast<size_t>(phase)][Get(slot).module];
}

const GemmPolicy* SlotTable::gemm_policy(int phase, absl::string_view module,
                                         Gemm gemm) const {
  const auto it = module_index_.find(module);
  if (it == module_index_.end() || resolved_rows_[it->second] == kNoRow) {
    return nullptr;
  }
  return &Resolved(phase, it->second).gemm(gemm);
}

}  // namespace scalekeeper
