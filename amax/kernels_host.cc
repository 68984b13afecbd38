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

void KeepSkipHost(const ArenaView& arena, const uint32_t* skip_flag) {
  if (Raised(skip_flag)) *arena.kept_skip = 1;
}

void CountStepHost(const ArenaView& arena, const uint32_t* skip_flag) {
  KeepSkipHost(arena, skip_flag);
  for (uint32_t g = 0; g < arena.groups; ++g) CountControl(arena, g);
  ++arena.step->step;
}

void HoldSlotsHost(const ArenaView& arena, const uint32_t* skip_flag) {
  for (uint32_t i = 0; i < arena.slots; ++i) HoldSlot(arena, i);
  for (uint32_t g = 0; g < arena.groups; ++g) {
    HoldControl(arena, g, Raised(skip_flag));
  }
}

void UpdateSlotsHost(const ArenaView& arena, const uint32_t* skip_flag) {
  StepState& step = *arena.step;
  bool agree = true;
  for (uint32_t g = 0; g < arena.groups; ++g) {
    if (!RanksAgree(OwnControl(arena, g), ControlWords(arena, g))) {
      arena.group_states[g].ranks_disagree = 1;
      agree = false;
    }
  }
  step.applied = agree ? 1 : 0;
  if (!agree) return;
  bool skipped = false;
  for (uint32_t g = 0; g < arena.groups; ++g) {
    GroupState& group = arena.group_states[g];
    // One rank drops the step for all.
    group.skipped = Raised(skip_flag) || ControlWords(arena, g)[0] != 0 ? 1 : 0;
    skipped = skipped || group.skipped != 0;
  }
  for (uint32_t i = 0; i < arena.slots; ++i) {
    SlotWork work;
    work.descriptor = arena.descriptors[i];
    LoadSlot(arena, i, &work);
    PlanSlot(arena, &work);
    const SlotDescriptor& d = work.descriptor;
    work.amax = arena.amax[d.amax_index];
    const uint32_t reduced = arena.messages[d.message_index];
    const bool skip = arena.group_states[d.group].skipped != 0;
    StoreSlot(arena, i, work, DecideSlot(work, reduced, skip), reduced,
              step.sequence);
  }
  step.previous_step = step.step++;
  ++step.sequence;
  if (skipped) ++step.skipped_steps;
  RehashScalesHost(arena);
}

void UndoSlotsHost(const ArenaView& arena) {
  StepState& step = *arena.step;
  --step.sequence;
  for (uint32_t i = 0; i < arena.slots; ++i) {
    UndoSlot(arena, i, step.sequence, /*amax=*/0);
  }
  for (uint32_t b = 0; b < BlockCount(arena.slots); ++b) {
    arena.block_sequences[b] = step.sequence;
  }
  step.step = step.previous_step;
  bool skipped = false;
  for (uint32_t g = 0; g < arena.groups; ++g) {
    skipped = skipped || arena.group_states[g].skipped != 0;
    arena.group_states[g].skipped = 0;
  }
  if (skipped) --step.skipped_steps;
}

void RepairSlotsHost(const ArenaView& arena) {
  const uint32_t sequence = arena.step->sequence;
  for (uint32_t i = 0; i < arena.slots; ++i) {
    if (arena.block_sequences[i / kBlockSlots] == sequence) continue;
    UndoSlot(arena, i, sequence,
             MaxBits(UndoRecord(arena, i, sequence).amax,
                     arena.amax[arena.descriptors[i].amax_index]));
  }
  for (uint32_t b = 0; b < BlockCount(arena.slots); ++b) {
    arena.block_sequences[b] = sequence;
  }
  for (uint32_t g = 0; g < arena.groups; ++g) arena.arrivals[g] = 0;
}

void RehashScalesHost(const ArenaView& arena) {
  for (uint32_t g = 0; g < arena.groups; ++g) {
    arena.group_states[g].scale_hash = 0;
  }
  for (uint32_t i = 0; i < arena.slots; ++i) {
    const SlotDescriptor& d = arena.descriptors[i];
    uint64_t& hash = arena.group_states[d.group].scale_hash;
    hash =
        (hash + ScaleHash(d.message_position, arena.scale[i])) & kScaleHashMask;
  }
  for (uint32_t g = 0; g < arena.groups; ++g) {
    PrepareControl(arena, g, arena.group_states[g].scale_hash, arena.step->step,
                   arena.step->phase);
  }
}

void ClearFlagsHost(const ArenaView& arena) {
  for (uint32_t i = 0; i < arena.slots; ++i) {
    arena.non_finite_steps[i] = 0;
    UndoRecord(arena, i, 0).flags &= ~SlotUndo::kNonFinite;
    UndoRecord(arena, i, 1).flags &= ~SlotUndo::kNonFinite;
  }
  for (uint32_t g = 0; g < arena.groups; ++g) {
    arena.group_states[g].ranks_disagree = 0;
  }
}

}  // namespace scalekeeper
