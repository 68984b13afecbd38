// PhaseSwitcher: puts a recipe's phase into force in the arena.
//
// A change of phase rewrites every slot's descriptor and the places in the
// groups' messages, never an address. What happens to a slot's window and scale
// is ChangeSlot of amax/update.h. A slot that is not `delayed` in a phase, but
// in another, keeps its window and scale for later and its place in its group's
// message: with its amax when it is watched (`current`, row or block scaling:
// inf and NaN raise the flag on all ranks), else with 0. A slot that is never
// delayed is in no group, and raises its flag on this rank alone.
//
// Until the next update completes, a switch can be reverted exactly: several
// switches between two updates have the effect of the last one alone.
//
// Memory is allocated by Create only. The caller rehashes scales afterwards.
#ifndef SCALEKEEPER_AMAX_PHASE_SWITCHER_H_
#define SCALEKEEPER_AMAX_PHASE_SWITCHER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "amax/arena.h"
#include "amax/slot_table.h"
#include "amax/state_image.h"

namespace scalekeeper {

class PhaseSwitcher {
 public:
  // What the table's slots need of an arena.
  static ArenaLayout LayoutOf(const SlotTable& table);

  PhaseSwitcher() = default;
  // Puts `phase` into force in a fresh arena. Table and arena are borrowed.
  PhaseSwitcher(const SlotTable* table, const Arena* arena, int phase);

  int active_phase() const { return active_phase_; }

  // No effect when `phase` is active.
  void SwitchTo(int phase);
  // Back to the phase of the last completed update; true if there was a switch.
  bool Revert();
  // An update has completed in the active phase.
  void Commit() { switched_ = false; }

  // Puts `phase` into force with what `images` say, one per slot of the arena;
  // null: as a new slot. What was saved under other options becomes what it
  // would have at a change of phase; a slot that is not delayed in `phase`
  // keeps what it had. Nothing can be reverted then.
  void Load(int phase, absl::Span<const SlotImage* const> images);
  // Makes the slot of the arena a new one, in the active phase.
  void ResetSlot(uint32_t slot);

 private:
  struct Backup {
    SlotDescriptor descriptor;
    SlotHistory history;
    float scale = 1;
    uint32_t measure = 0;
    uint8_t ring = 0;
  };

  // The descriptor of a slot whose delayed policy in force, or next to come
  // into force, is `policy`.
  void Describe(const Policy& policy, SlotDescriptor* descriptor) const;
  void PlaceMessages(int phase);
  void LoadSlot(uint32_t slot, int phase, const SlotImage* image);

  const SlotTable* table_ = nullptr;
  const Arena* arena_ = nullptr;
  int active_phase_ = 0;
  int previous_phase_ = 0;
  bool switched_ = false;
  std::vector<uint8_t> rings_;   // which of its rings a slot uses
  std::vector<Backup> backups_;  // before the switch
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_PHASE_SWITCHER_H_
