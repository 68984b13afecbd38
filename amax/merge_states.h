// One state of several ranks' states: for another number of ranks, or for ranks
// that did not reduce their amaxes.
//
// A slot that is in several images becomes the element-wise maximum:
//   * windows aligned at their newest entries; the longest one decides;
//   * the scale is the smallest. Scales fall as amaxes rise, so this is the
//     scale of the merged window wherever each scale was its own window's, and
//     it saturates on no rank where one was not (SKIP, BACK_OFF, a change of
//     options since). A rank whose slot is still measured has no say while
//     another one has made a scale;
//   * observed amaxes, flags and counters: the maximum; one rank's wish to drop
//     them is that of all.
// A slot that is in one image only (a pipeline stage's, an expert's) is taken
// as it is. The order of the images does not matter.
//
// Example:
//   SK_ASSIGN_OR_RETURN(StateImage image, MergeStates({rank0, rank1}));
//   // LoadState on every rank of the new job, with allow_extra where a rank
//   // owns some of the modules.
#ifndef SCALEKEEPER_AMAX_MERGE_STATES_H_
#define SCALEKEEPER_AMAX_MERGE_STATES_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "amax/state_image.h"

namespace scalekeeper {

struct MergeOptions {
  // Images of different steps; the result has the largest.
  bool allow_different_steps = false;
  // Images of different recipes; the result names none, so that a load takes
  // the options of its own recipe. Slots whose options differ are refused all
  // the same: their scales cannot be compared.
  bool allow_different_recipes = false;
};

// InvalidArgument where there is no image or ValidateImage says so;
// FailedPrecondition naming what differs: step, recipe, numerics, or a slot's
// role, identity, options.
absl::StatusOr<StateImage> MergeStates(
    absl::Span<const StateImage> images,
    const MergeOptions& options = MergeOptions());

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_MERGE_STATES_H_
