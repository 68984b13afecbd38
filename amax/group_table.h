// What the ranks of a group compare at Freeze: the recipe, and the slots that
// are in the group in some phase, with their policies and groups in all phases.
#ifndef SCALEKEEPER_AMAX_GROUP_TABLE_H_
#define SCALEKEEPER_AMAX_GROUP_TABLE_H_

#include <cstdint>

#include "amax/agreement.h"
#include "amax/slot_table.h"
#include "recipe/recipe.h"

namespace scalekeeper {

AgreementTable DescribeGroup(const Recipe& recipe, const SlotTable& table,
                             uint32_t group);

// Equal only where DescribeGroup is.
uint64_t GroupFingerprint(const Recipe& recipe, const SlotTable& table,
                          uint32_t group);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_GROUP_TABLE_H_
