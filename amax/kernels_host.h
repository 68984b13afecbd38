// The host side of amax/kernels.h: plain loops over amax/update.h.
#ifndef SCALEKEEPER_AMAX_KERNELS_HOST_H_
#define SCALEKEEPER_AMAX_KERNELS_HOST_H_

#include <cstdint>

#include "amax/arena_view.h"

namespace scalekeeper {

void PackMessagesHost(const ArenaView& arena, const uint32_t* skip_flag);
void KeepSkipHost(const ArenaView& arena, const uint32_t* skip_flag);
void CountStepHost(const ArenaView& arena, const uint32_t* skip_flag);
void HoldSlotsHost(const ArenaView& arena, const uint32_t* skip_flag);
void UpdateSlotsHost(const ArenaView& arena, const uint32_t* skip_flag);
void UndoSlotsHost(const ArenaView& arena);
void RehashScalesHost(const ArenaView& arena);
// Undoes what a step that failed half-way on a GPU did; observations are kept.
void RepairSlotsHost(const ArenaView& arena);
void ClearFlagsHost(const ArenaView& arena);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_KERNELS_HOST_H_
