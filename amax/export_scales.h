// The scales of a RecipeState as a file that an inference engine reads.
//
// After training, or after a calibration: a run in high precision in which
// Quantizer::Calibrate only observes, then RecipeState::CommitCalibration,
// which makes scales of what was seen. One JSON object on several lines:
//
//   {
//     "format": "scalekeeper.static_scales", "version": 1,
//     "recipe": {"name": "...", "fingerprint": "...", "text": "..."},
//     "step": 1,
//     "modules": {
//       "layers.0.fc1": {
//         "input": {"format": "E4M3", "scale": 56, "scale_inv": 0.0178571437,
//                   "amax": 8, "calibrated": true},
//         "weight": ...
//       }
//     }
//   }
//
// Every slot with delayed scaling is listed, in the order of AddModule and
// AddSlot. `scale` multiplies when quantizing, scale_inv is its inverse, amax
// is the one that made it (null and "calibrated": false where nothing was
// observed: the scale is then the initial one). Numbers have nine significant
// digits, which read back as the same float32. `text` is the recipe, complete.
//
// Scalings that are not delayed make their scales from the tensors that they
// quantize, so there is nothing static to export: they are in `text` alone.
//
// Example:
//   SK_RETURN_IF_ERROR(state->CommitCalibration(stream));
//   SK_ASSIGN_OR_RETURN(std::string json, ExportScales(*state, stream));
#ifndef SCALEKEEPER_AMAX_EXPORT_SCALES_H_
#define SCALEKEEPER_AMAX_EXPORT_SCALES_H_

#include <string>

#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
#include "base/device.h"

namespace scalekeeper {

// Synchronizes. FailedPrecondition before Freeze.
absl::StatusOr<std::string> ExportScales(const RecipeState& state,
                                         Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_EXPORT_SCALES_H_
