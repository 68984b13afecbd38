// AmaxGroup: amaxes of tensors that are being quantized, reduced over the ranks
// of one of the recipe's amax_groups before their scales are made.
//
// For tensor-level scales that are not delayed. The words of all tensors that
// are quantized together lie one behind the other and are one message
// (quantizer/quantize_many.h).
//
// Belongs to its RecipeState. Threads and streams: one call at a time, and, on
// a GPU, calls on one stream or on streams that the caller orders: the words
// are the same every time. Memory grows to the largest message and is then
// allocated no more; on a GPU so that earlier work can go on.
//
// Example:
//   SK_ASSIGN_OR_RETURN(uint32_t* words, group->Words(2, stream));  // both 0
//   ... kernels raise them ...
//   SK_RETURN_IF_ERROR(group->ReduceMax(2, stream));
#ifndef SCALEKEEPER_AMAX_AMAX_GROUP_H_
#define SCALEKEEPER_AMAX_AMAX_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/communicator.h"
#include "base/buffer.h"
#include "base/device.h"

namespace scalekeeper {

class AmaxGroup {
 public:
  // Borrows communicator and allocator.
  AmaxGroup(std::string name, Communicator* communicator, Device device,
            Allocator* allocator)
      : name_(std::move(name)),
        communicator_(communicator),
        device_(device),
        allocator_(allocator) {}

  const std::string& name() const { return name_; }
  Communicator* communicator() const { return communicator_; }

  // `count` words of the device, set to 0 on `stream`.
  absl::StatusOr<uint32_t*> Words(size_t count, Stream stream);
  // The first `count` words become the maximum over the ranks, all of which
  // call it with the same count, also those that have measured nothing.
  // Queued on `stream`; a communicator of host memory synchronizes a GPU.
  absl::Status ReduceMax(size_t count, Stream stream);

 private:
  const std::string name_;
  Communicator* const communicator_;
  const Device device_;
  Allocator* const allocator_;
  std::vector<Buffer> buffers_;   // the last one is in use
  std::vector<uint32_t> staged_;  // for a communicator of host memory
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_AMAX_GROUP_H_
