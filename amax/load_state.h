// The whole state of a RecipeState, out of it and into it.
//
// SaveState copies what makes the coming steps what they will be: scales,
// windows, what this rank has observed since the last update, flags, the step's
// number and counters. A state with the same recipe and modules that loads it,
// in another process or on another device, goes on bit for bit (seeds are in
// the recipe). What cannot be undone any more is not saved: RestorePrevious
// fails until the next step, and a change of phase counts as completed.
//
// A state that was saved under another recipe becomes what it would have become
// at a change of phase to the present one:
//   * another amax_history_len: the newest amaxes are kept;
//   * another margin, amax_compute_algo, non_finite_amax or group: from the
//     next update on;
//   * another format: the scale is made anew from the window at once, or, where
//     that is empty, first_step decides as for a new slot;
//   * delayed now, another scaling before: a new slot (LoadReport::fresh);
//   * another scaling now in every phase: dropped (LoadReport::dropped);
//   * the step's number counts, the phases are those of the present recipe;
//   * no update.staleness any more: what waits for the next update becomes
//     observations of the coming step.
// The recipe in an image is compared, never executed: nothing is made of it.
//
// Threads: as RecipeState's other calls; all of these synchronize with `stream`
// and need a frozen state, not between Pack and Update. Addresses never move.
// Not collective, but the ranks of a group must do the same: ranks that differ
// get DataLoss from the next EndStep. A failed call has changed nothing.
//
// Example:
//   SK_ASSIGN_OR_RETURN(StateImage image, SaveState(*state, stream));
//   ...
//   SK_ASSIGN_OR_RETURN(LoadReport report,
//                       LoadState(image, LoadOptions(), stream, resumed));
//   if (!report.same_recipe) Log(report.ToString());
//   // Lost a module? FailedPrecondition: LoadState: the image lacks
//   //     "layers.1.fc1/input" (allow_missing makes it a new slot)
#ifndef SCALEKEEPER_AMAX_LOAD_STATE_H_
#define SCALEKEEPER_AMAX_LOAD_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "amax/recipe_state.h"
#include "amax/state_image.h"
#include "base/device.h"

namespace scalekeeper {

absl::StatusOr<StateImage> SaveState(const RecipeState& state, Stream stream);

struct LoadOptions {
  // Delayed slots of the state that the image does not know become new ones.
  bool allow_missing = false;
  // Delayed slots of the image that the state does not have are ignored.
  bool allow_extra = false;
  // A recipe that differs (or that the image does not name) is an error.
  bool require_same_recipe = false;
};

// What was done, by name, in natural order.
struct LoadReport {
  bool same_recipe = false;
  // "defaults.input.delayed.margin: 0 -> 1" (image -> state).
  std::vector<std::string> recipe_differences;
  std::vector<std::string> missing;   // by allow_missing
  std::vector<std::string> extra;     // by allow_extra
  std::vector<std::string> fresh;     // had no scale, have one now
  std::vector<std::string> dropped;   // had a scale, have none now
  std::vector<std::string> rescaled;  // the format changed
  std::vector<std::string> warnings;  // what was assumed

  // Lines for a log; empty when there is nothing to tell.
  std::string ToString() const;
};

// Errors, besides those of a call out of order: InvalidArgument where
// ValidateImage says so; FailedPrecondition naming slots that are missing or
// extra, a module of another identity, a slot of another role, a recipe that
// differs; the error of an earlier step that broke a state on a GPU.
absl::StatusOr<LoadReport> LoadState(const StateImage& image,
                                     const LoadOptions& options, Stream stream,
                                     RecipeState* state);

// Undoes what is done in between: the warm-up runs before a CUDA graph is
// captured. The same as SaveState and LoadState (under the same recipe); graphs
// that were captured in the phase of the snapshot stay good.
absl::StatusOr<StateImage> SnapshotObservations(const RecipeState& state,
                                                Stream stream);
absl::Status Restore(const StateImage& snapshot, Stream stream,
                     RecipeState* state);

// All slots of the modules become new ones: windows empty, nothing observed,
// scale 1, first_step as at the beginning. For weights that were loaded over
// initialised ones. InvalidArgument for a module that was not added.
absl::Status ResetObservations(absl::Span<const std::string> modules,
                               Stream stream, RecipeState* state);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_LOAD_STATE_H_
