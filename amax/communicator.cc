#include "amax/communicator.h"

namespace scalekeeper {

absl::Status Communicator::AllGather(const void*, void*, size_t, Stream) {
  return absl::UnimplementedError("AllGather: this communicator has none");
}

}  // namespace scalekeeper
