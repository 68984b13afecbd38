#include "amax/kernels_host.h"

#include "amax/update.h"

namespace scalekeeper {
namespace {

bool Raised(const uint32_t* flag) { return flag != nullptr && *flag != 0; }

}  // namespace

void PackMessagesHost(const ArenaView& arena, const uint32_t* skip_flag) {
  for (uint32_t i = 0; i < arena.slots; ++i) PackSlot(arena, i);
  for (uint32_t g = 0; g < arena.groups; ++g) {
    PackControl(arena, g, Raised(skip_flag));
  }
}

void UpdateSlotsHost(const ArenaView& arena, const uint32_t* skip_flag) {
  bool agree = true;
  for (uint32_t g = 0; g < arena.groups; ++g) {
    if (!RanksAgree(arena, g)) {
      arena.group_states[g].ranks_disagree = 1;
      agree = false;
    }
  }
  arena.step->applied = agree ? 1 : 0;
  if (!agree) return;
  for (uint32_t g = 0; g < arena.groups; ++g) {
    GroupState& group = arena.group_states[g];
    group.skipped = StepSkipped(arena, g, Raised(skip_flag)) ? 1 : 0;
    group.scale_hash = 0;
  }
  for (uint32_t i = 0; i < arena.slots; ++i) {
    GroupState& group = arena.group_states[arena.descriptors[i].group];
    UpdateSlot(arena, i, group.skipped != 0);
    group.scale_hash += ScaleHash(arena, i);
  }
  ++arena.step->step;
}

void UndoSlotsHost(const ArenaView& arena) {
  for (uint32_t i = 0; i < arena.slots; ++i) UndoSlot(arena, i);
}

void RehashScalesHost(const ArenaView& arena) {
  for (uint32_t g = 0; g < arena.groups; ++g) {
    arena.group_states[g].scale_hash = 0;
  }
  for (uint32_t i = 0; i < arena.slots; ++i) {
    arena.group_states[arena.descriptors[i].group].scale_hash +=
        ScaleHash(arena, i);
  }
}

}  // namespace scalekeeper
