#include "amax/group_table.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "amax/update.h"

namespace scalekeeper {
namespace {

std::string DescribeSlot(const SlotTable& table, int32_t slot) {
  std::vector<std::string> parts;
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

}  // namespace

AgreementTable DescribeGroup(const Recipe& recipe, const SlotTable& table,
                             uint32_t group) {
  AgreementTable out;
  out.recipe = recipe.ToString();
  out.recipe_fingerprint = recipe.fingerprint();
  for (int32_t slot : table.arena_slots()) {
    for (int phase = 0; phase < table.phases(); ++phase) {
      if (table.group(phase, slot) != group) continue;
      out.slots.push_back({table.name(slot), DescribeSlot(table, slot)});
      break;
    }
  }
  return out;
}

uint64_t GroupFingerprint(const Recipe& recipe, const SlotTable& table,
                          uint32_t group) {
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
    bool member = false;
    uint64_t groups = 0;
    for (int phase = 0; phase < table.phases(); ++phase) {
      const uint32_t g = table.group(phase, slot);
      member = member || g == group;
      groups =
          HashBytes(groups, g < table.groups().size() ? table.groups()[g]
                                                      : absl::string_view());
    }
    if (!member) continue;
    hash = HashBytes(hash, table.name(slot));
    hash = MixBits(hash ^ policies[table.policy_set(slot)]);
    hash = MixBits(hash ^ groups);
  }
  return hash;
}

}  // namespace scalekeeper
