// What is in a state, and how two states differ, for people who look for what
// went wrong.
#ifndef SCALEKEEPER_TOOLS_INSPECT_H_
#define SCALEKEEPER_TOOLS_INSPECT_H_

#include <string>
#include <vector>

#include "amax/state_image.h"

namespace scalekeeper {

// What is odd about a slot, the worst first; empty where nothing is.
//   non-finite   an inf or NaN amax since the flags were cleared
//   overflow     an infinity or NaN in the window (non_finite_amax: FREEZE)
//   extreme      the scale is FLT_MAX or 2^-126: amaxes without a scale
//   unused       the scale was never made of an amax, though steps were done
//   stale        the scale does not fit the window: off by more than 2
//   spike        the newest amax is more than 16 times the second largest
std::vector<std::string> Suspicions(const SlotImage& slot, int64_t updates);

struct SlotDifference {
  std::string slot;
  std::string what;  // "scale: 56 -> 112", "not in B"
};

// Slot by slot, in natural order; then what concerns the whole has an empty
// slot. Equal states give nothing.
std::vector<SlotDifference> DiffStates(const StateImage& a,
                                       const StateImage& b);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_INSPECT_H_
