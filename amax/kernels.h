// The loops over the arena, one switch on the device kind.
//
// Each call enqueues on `stream` (the host finishes before it returns) and
// allocates nothing. A device without a backend gives Unimplemented.
#ifndef SCALEKEEPER_AMAX_KERNELS_H_
#define SCALEKEEPER_AMAX_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "amax/arena_view.h"
#include "base/device.h"

namespace scalekeeper {

// Unimplemented, naming the device, where amax state cannot live.
absl::Status ValidateAmaxDevice(const Device& device);

// Fills every message and its control words. `skip_flag`: a device word, or
// null.
absl::Status PackMessages(const Device& device, const ArenaView& arena,
                          const uint32_t* skip_flag, Stream stream);

// Updates every slot from the reduced messages and moves on to the next step;
// when the ranks of any group disagree, only raises that group's flag
// (arena.step->applied tells).
absl::Status UpdateSlots(const Device& device, const ArenaView& arena,
                         const uint32_t* skip_flag, Stream stream);

// Undoes the last UpdateSlots; the caller restores step and phase.
absl::Status UndoSlots(const Device& device, const ArenaView& arena,
                       Stream stream);

// Recomputes every group's scale_hash, after scales changed outside an update.
absl::Status RehashScales(const Device& device, const ArenaView& arena,
                          Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_KERNELS_H_
