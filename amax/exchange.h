// How the amaxes of a group of GPUs come together, for RecipeStateOptions.
#ifndef SCALEKEEPER_AMAX_EXCHANGE_H_
#define SCALEKEEPER_AMAX_EXCHANGE_H_

namespace scalekeeper {

// The bits are the same either way; every rank of a group must ask for the
// same.
enum class Exchange {
  kAuto,       // kFused where it is safe, else kAllReduce
  kFused,      // one kernel that exchanges and updates; Freeze fails where the
               // ranks are not all on one NVLink domain, or several groups are
               // bound
  kAllReduce,  // the communicator's reduction, then the update
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_EXCHANGE_H_
