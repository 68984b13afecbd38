// StateImage: the amax state of one rank as plain values in host memory.
//
// What a checkpoint holds and a merge works on: SaveState (amax/load_state.h)
// makes one, LoadState puts one into a RecipeState, amax/checkpoint.h turns it
// into bytes and files, amax/merge_states.h makes one of several,
// amax/import_arrays.h makes one of another library's arrays. Nothing in it
// depends on where it came from: slots are found by name.
//
// Example:
//   SK_ASSIGN_OR_RETURN(StateImage image, SaveState(*state, stream));
//   const SlotImage* fc1 = image.Find("layers.0.fc1/input");
//   FloatFromBits(fc1->delayed->scale_bits);   // 56
#ifndef SCALEKEEPER_AMAX_STATE_IMAGE_H_
#define SCALEKEEPER_AMAX_STATE_IMAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "recipe/policy.h"

namespace scalekeeper {

// What this program writes, and the newest that it reads.
inline constexpr uint32_t kStateSchemaVersion = 1;

// The options that made a scale.
struct ScaleOptions {
  Format format = Format::kE4M3;
  AmaxComputeAlgo algo = AmaxComputeAlgo::kMax;
  NonFiniteAmax non_finite = NonFiniteAmax::kSkip;
  int margin = 0;
  uint32_t history_len = 1;
};
bool operator==(const ScaleOptions& a, const ScaleOptions& b);
inline bool operator!=(const ScaleOptions& a, const ScaleOptions& b) {
  return !(a == b);
}
// Of a delayed policy.
ScaleOptions ScaleOptionsOf(const Policy& policy);
// "E4M3 margin=0 amax_history_len=16 ...".
std::string Describe(const ScaleOptions& options);

// Of a slot that is delayed in some phase.
struct DelayedImage {
  // Delayed in the phase of the step; else kept for a later one.
  bool in_use = true;
  // Unset where it is not known: then a load takes those of its recipe.
  std::optional<ScaleOptions> options;
  uint32_t scale_bits = 0x3F800000;  // of a float32: 1
  bool measure = false;              // SlotView::measure
  std::vector<uint32_t> window;      // amax bits, oldest first
  // Longest window of all phases: what the window takes in a file.
  uint32_t capacity = 1;
};

struct SlotImage {
  std::string name;  // "layers.0.fc1/input"
  Role role = Role::kInput;
  std::string identity;    // of the module; empty: none
  std::string group;       // empty: not reduced in this phase
  uint32_t amax_bits = 0;  // observed by this rank since the last update
  uint32_t held_bits = 0;  // StateImage::held
  uint32_t non_finite_steps = 0;
  std::optional<DelayedImage> delayed;
};

struct StateImage {
  uint32_t numerics_version = 0;  // 0: not known
  std::string recipe;             // canonical text; empty: not known
  std::string recipe_fingerprint;
  int64_t step = 0;                                   // that comes next
  int64_t updates = 0, collectives = 0, skipped = 0;  // StepCounters
  // Observations of the last update wait for the next one (update.staleness);
  // and whether this rank wants those dropped.
  bool held = false;
  bool held_skip = false;
  bool kept_skip = false;           // this rank's next update is to be dropped
                                    // (update.interval)
  std::vector<std::string> groups;  // all that slots name in some phase, sorted
  std::vector<SlotImage> slots;     // sorted by NaturalLess of their names

  // Null when there is no such slot.
  const SlotImage* Find(absl::string_view name) const;
};

// InvalidArgument naming the slot, the field and the value where an image
// cannot be of any state: names that are empty, repeated or not in order, a
// scale that is no positive normal number, an amax with a sign, a margin or a
// window's length out of range.
absl::Status ValidateImage(const StateImage& image);

// Sorts by name, as every image is.
void SortSlots(StateImage* image);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_STATE_IMAGE_H_
