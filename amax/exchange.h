// How the amaxes of a group of GPUs come together, for RecipeStateOptions.
#ifndef SCALEKEEPER_AMAX_EXCHANGE_H_
#define SCALEKEEPER_AMAX_EXCHANGE_H_

namespace scalekeeper {

// The bits are the same either way; every rank of a group must ask for the
// same.
enum class Exchange {
  kAuto,       // kFused where it is safe, else kAllReduce. Safe: two such
               // states fit on the GPU at once (some 50,000 slots each on an
               // H200), so that two on two streams cannot wait for each other
  kFused,      // one kernel that exchanges and updates; Freeze fails where the
               // ranks are not all on one NVLink domain, several groups are
               // bound, or the slots do not all fit on the GPU at once
  kAllReduce,  // the communicator's reduction, then the update
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_EXCHANGE_H_
