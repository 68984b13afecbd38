#include "amax/group_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "amax/update.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

std::string DescribeSlot(const SlotTable& table, int32_t slot) {
  std::vector<std::string> parts;
  if (!table.identity(slot).empty()) {
    parts.push_back(absl::StrCat("identity ", Quoted(table.identity(slot))));
  }
  for (int phase = 0; phase < table.phases(); ++phase) {
    const Policy& policy = table.policies(slot)[static_cast<size_t>(phase)];
    const uint32_t group = table.group(phase, slot);
    parts.push_back(
        absl::StrCat(Describe(policy), ", ",
                     group == table.groups().size()
                         ? "not reduced"
                         : absl::StrCat("group ", table.groups()[group])));
  }
  return absl::StrJoin(parts, " | ");
}

// Whether arena slot `slot` is reduced over `group` in some phase.
bool IsReducedOver(const SlotTable& table, int32_t slot,
                   absl::string_view group) {
  for (int phase = 0; phase < table.phases(); ++phase) {
    const uint32_t g = table.group(phase, slot);
    if (g < table.groups().size() && table.groups()[g] == group) return true;
  }
  return false;
}

bool IsSyncedOver(const SlotTable& table, int32_t slot,
                  absl::string_view group) {
  const std::vector<Policy>& policies = table.policies(slot);
  return std::any_of(policies.begin(), policies.end(),
                     [&](const Policy& p) { return AmaxGroupOf(p) == group; });
}

}  // namespace

AgreementTable DescribeGroup(const Recipe& recipe, const SlotTable& table,
                             absl::string_view group) {
  AgreementTable out;
  out.recipe = recipe.ToString();
  out.recipe_fingerprint = recipe.fingerprint();
  for (int32_t slot : table.arena_slots()) {
    if (!IsReducedOver(table, slot, group)) continue;
    out.slots.push_back({table.name(slot), DescribeSlot(table, slot)});
  }
  for (int32_t slot : table.synced_slots()) {
    // Once, though a slot may be in the group in both ways.
    if (!IsSyncedOver(table, slot, group) || IsReducedOver(table, slot, group))
      continue;
    out.slots.push_back({table.name(slot), DescribeSlot(table, slot)});
  }
  return out;
}

uint64_t GroupFingerprint(const Recipe& recipe, const SlotTable& table,
                          absl::string_view group) {
  std::vector<uint64_t> policies;
  for (uint32_t set = 0; set < table.policy_set_count(); ++set) {
    uint64_t hash = 0;
    for (const Policy& policy : table.policies_of_set(set)) {
      hash = HashBytes(hash, Describe(policy));
    }
    policies.push_back(hash);
  }
  uint64_t hash = HashBytes(0, recipe.fingerprint());
  for (int32_t slot : table.arena_slots()) {
    if (!IsReducedOver(table, slot, group)) continue;
    uint64_t groups = 0;
    for (int phase = 0; phase < table.phases(); ++phase) {
      const uint32_t g = table.group(phase, slot);
      groups =
          HashBytes(groups, g < table.groups().size() ? table.groups()[g]
                                                      : absl::string_view());
    }
    hash = HashBytes(hash, table.name(slot));
    hash = HashBytes(hash, table.identity(slot));
    hash = MixBits(hash ^ policies[table.policy_set(slot)]);
    hash = MixBits(hash ^ groups);
  }
  for (int32_t slot : table.synced_slots()) {
    if (!IsSyncedOver(table, slot, group)) continue;
    hash = HashBytes(hash, table.name(slot));
    hash = HashBytes(hash, table.identity(slot));
    hash = MixBits(hash ^ policies[table.policy_set(slot)]);
  }
  return hash;
}

}  // namespace scalekeeper
