// What the ranks of a group compare at Freeze: the recipe, and the slots that
// are in the group in some phase, with their policies and groups in all phases;
// then those whose policy names it as its amax_group in some phase.
#ifndef SCALEKEEPER_AMAX_GROUP_TABLE_H_
#define SCALEKEEPER_AMAX_GROUP_TABLE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "amax/agreement.h"
#include "amax/slot_table.h"
#include "recipe/recipe.h"

namespace scalekeeper {

// `group` is a name; no slot need be in it.
AgreementTable DescribeGroup(const Recipe& recipe, const SlotTable& table,
                             absl::string_view group);

// Equal only where DescribeGroup is.
uint64_t GroupFingerprint(const Recipe& recipe, const SlotTable& table,
                          absl::string_view group);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_GROUP_TABLE_H_
