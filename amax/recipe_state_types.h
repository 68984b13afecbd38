// Plain values that RecipeState takes and gives.
#ifndef SCALEKEEPER_AMAX_RECIPE_STATE_TYPES_H_
#define SCALEKEEPER_AMAX_RECIPE_STATE_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "recipe/policy.h"

namespace scalekeeper {

// Names a slot in the order of AddModule / AddSlot calls; stays valid until the
// RecipeState is destroyed.
struct SlotId {
  int32_t value = -1;
  friend bool operator==(SlotId a, SlotId b) { return a.value == b.value; }
};

struct ModuleSlots {
  SlotId input, weight, grad;
  SlotId slot(Role role) const {
    return role == Role::kInput ? input : role == Role::kWeight ? weight : grad;
  }
};

// What a group sends per step: reduce `data` with uint32 max over the group.
struct AmaxMessageView {
  uint32_t* data = nullptr;
  size_t count = 0;
};

struct StepCounters {
  int64_t updates = 0;      // completed EndStep / Update calls
  int64_t collectives = 0;  // AllReduceMax calls of completed steps
  int64_t skipped = 0;      // of the updates, those a skip_flag dropped
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_RECIPE_STATE_TYPES_H_
