// Quantizes the tokens of a mixture of experts: one tensor whose rows belong to
// several experts, each with its own slot, in one call.
//
// Rows of one expert lie behind each other, in the order of the experts; how
// many each has is said by words of the device, so that a router on a GPU needs
// no host. An expert without rows observes nothing: its scale and window stay
// (and a current scale of nothing is 1). Rows behind the last expert's are
// padding, which is neither read nor written.
//
// Delayed and current scaling, one policy for all experts. Scales that run
// along rows (rowwise, 1 x B blocks) do not depend on whose the rows are:
// Quantizer quantizes the whole tensor, and grouped products split it
// (gemm/grouped_matmul.h).
//
// Threads, InferenceGuard, amax_group, phases: as quantizer/quantizer.h says.
// Work is queued on `stream`; after Create and MakeEmpty nothing is allocated,
// and nothing synchronizes. Must not outlive its RecipeState.
//
// Example:
//   SK_ASSIGN_OR_RETURN(std::vector<ModuleSlots> experts,
//                       state->AddModules("experts", 8));
//   ...                                    // Freeze; slots of role input
//   SK_ASSIGN_OR_RETURN(std::unique_ptr<GroupedQuantizer> q,
//                       GroupedQuantizer::Create(state.get(), slots));
//   SK_ASSIGN_OR_RETURN(GroupedTensor x8, q->MakeEmpty(tokens, width, stream));
//   SK_RETURN_IF_ERROR(q->QuantizeInto(x, counts, &x8, stream));
//   SK_RETURN_IF_ERROR(GroupedMatmul(x8, weights, y, splits, options, stream));
#ifndef SCALEKEEPER_QUANTIZER_GROUPED_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_GROUPED_QUANTIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/tensor_view.h"
#include "quantizer/grouped_kernels.h"
#include "quantizer/grouped_tensor.h"
#include "quantizer/known_memory.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

class GroupedQuantizer {
 public:
  // `slots`: one per expert, in the order of their rows. `state` and
  // `allocator` (null: the device's default) are borrowed. FailedPrecondition
  // before Freeze; InvalidArgument without slots, for a slot that is not
  // state's, or one whose policy is not that of the first, naming both.
  static absl::StatusOr<std::unique_ptr<GroupedQuantizer>> Create(
      RecipeState* state, std::vector<SlotId> slots, Usages usages = Usages(),
      Allocator* allocator = nullptr);

  int experts() const { return static_cast<int>(slots_.size()); }

  // Unimplemented naming the scaling that is active, unless it is delayed or
  // current.
  absl::StatusOr<GroupedTensor> MakeEmpty(int64_t rows, int64_t cols,
                                          Stream stream) const;
  // `x` is rows x cols, any strides, float32 / bfloat16 / float16; `counts`:
  // device words, one per expert. InvalidArgument for memory of either that is
  // not on the state's device, and, on the host, for counts that are negative
  // or add up to more than the rows; a GPU takes what there is.
  absl::Status QuantizeInto(ConstTensorView x, const int64_t* counts,
                            GroupedTensor* out, Stream stream);
  // Padding becomes 0.
  absl::Status Dequantize(const GroupedTensor& q, TensorView out,
                          Stream stream) const;

 private:
  GroupedQuantizer(RecipeState* state, std::vector<SlotId> slots, Usages usages,
                   Allocator* allocator, Buffer table)
      : state_(state),
        generation_(state->generation()),
        slots_(std::move(slots)),
        usages_(usages),
        allocator_(allocator),
        table_(std::move(table)) {}

  absl::StatusOr<const Policy*> ActivePolicy() const;
  kernels::GroupedSpec SpecOf(const Policy& policy,
                              const GroupedTensor& tensor) const;

  RecipeState* const state_;
  const int64_t generation_;  // of the state
  const std::vector<SlotId> slots_;
  const Usages usages_;
  Allocator* const allocator_;
  const Buffer table_;  // kernels::GroupedSlot per expert, on the device
  KnownMemory known_x_, known_counts_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_GROUPED_QUANTIZER_H_
