// What a RecipeState is bound to.
#ifndef SCALEKEEPER_AMAX_RECIPE_STATE_OPTIONS_H_
#define SCALEKEEPER_AMAX_RECIPE_STATE_OPTIONS_H_

#include <map>
#include <string>

#include "amax/communicator.h"
#include "amax/exchange.h"
#include "base/buffer.h"
#include "base/device.h"

namespace scalekeeper {

struct RecipeStateOptions {
  Device device;
  Allocator* allocator = nullptr;  // null: the device's default
  // Group name -> this rank's communicator, borrowed. With an empty map every
  // group is this process alone; otherwise each enabled group, and each
  // amax_group that a policy names, must be bound.
  std::map<std::string, Communicator*> groups;
  // Between GPUs; RecipeState::Describe tells what was chosen.
  Exchange exchange = Exchange::kAuto;
  // The process only infers, from beginning to end: its quantizers observe
  // nothing, and make row-wise data alone where they make any
  // (quantizer/inference_guard.h is the same for a part of a program).
  bool inference = false;
  // On a GPU, Freeze refuses what the chip does not multiply
  // (recipe/chip_check.h). False: the program multiplies by means of its own,
  // or not at all.
  bool check_chip = true;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_RECIPE_STATE_OPTIONS_H_
