// Moving in: states of libraries that keep scales by position.
//
// NVIDIA TransformerEngine keeps, per module and direction, `scale` [n] and
// `amax_history` [len, n]. Row 0 collects the amaxes of the step that goes on
// (before the reduction over ranks); behind it come the oldest row up to the
// newest, row len - 1. Here row 0 becomes SlotImage::amax_bits, and the others
// the window, without the zeros (nothing was observed, or not yet) and without
// infinities and NaNs, which a window of this library holds only under
// non_finite_amax: FREEZE. A window has one entry less than `len`: the next
// update brings it.
//
// Columns get names: which module and role they are. In a module with one GEMM
// TransformerEngine's forward arrays are input, weight, output and the backward
// ones grad of the output, grad of the input; outputs and the grad of the input
// are quantized by nobody and are left out, with an empty name.
//
// The image names no recipe: LoadState takes the present one's options and says
// so. Its `allow_missing` admits slots that the arrays do not have.
//
// Example:
//   PositionalArrays forward;
//   forward.slots = {"layers.0.fc1/input", "layers.0.fc1/weight", ""};
//   forward.scale = {56, 448, 1};
//   forward.amax_history = {0, 0, 0, 8, 1, 0};   // 2 rows
//   SK_ASSIGN_OR_RETURN(StateImage image, ImportArrays({forward}, /*step=*/7));
#ifndef SCALEKEEPER_AMAX_IMPORT_ARRAYS_H_
#define SCALEKEEPER_AMAX_IMPORT_ARRAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "amax/state_image.h"

namespace scalekeeper {

struct PositionalArrays {
  std::vector<std::string> slots;   // n names; an empty one leaves out
  std::vector<float> scale;         // n
  std::vector<float> scale_inv;     // n, or empty; must be 1 / scale
  std::vector<float> amax_history;  // len x n, row-major
};

// The role is the last part of a slot's name: "layers.0.fc1/input". All arrays
// of a model at once. InvalidArgument naming the slot or the array and what
// does not fit.
absl::StatusOr<StateImage> ImportArrays(
    absl::Span<const PositionalArrays> arrays, int64_t step);

// From the JSON of proto/positional.proto's PositionalStates. InvalidArgument
// also where the text is none.
absl::StatusOr<StateImage> ImportArraysJson(absl::string_view json);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_IMPORT_ARRAYS_H_
