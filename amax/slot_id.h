// Names of slots and modules in code.
#ifndef SCALEKEEPER_AMAX_SLOT_ID_H_
#define SCALEKEEPER_AMAX_SLOT_ID_H_

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

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_SLOT_ID_H_
