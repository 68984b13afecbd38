// More than one scale per tensor, made from the tensor that is quantized:
// row-wise current scaling, FP32 blocks, MXFP8 and NVFP4.
//
//   rowwise   a scale per row, and per column of the column-wise copy
//             (numerics.md 4); a pass for the amaxes, one for the codes. A row
//             or column without elements has the amax 0
//   block     1 x 128 or 128 x 128 float32 scales (4); one pass
//   mxfp8     1 x 32 or 32 x 32 E8M0 scales (5); one pass
//   nvfp4     1 x 16 or 16 x 16 E4M3 scales and a float32 one (6); two passes
// A column-wise copy is quantized anew; of square blocks it is the transpose.
// random_hadamard wants a number of rows that is a multiple of 16 for a
// column-wise copy: MakeEmpty and Quantize return InvalidArgument. Stochastic
// rounding draws by (seed, slot's name, RecipeState::step(), position): the
// same call in the same step gives the same codes.
//
// The amax is observed too: it changes no scale, but an infinity or NaN raises
// the slot's flag in the next RecipeState::EndStep, also one that the transform
// makes of large finite values.
//
// What the ranks of an amax_group share does not depend on their usages. Of
// rowwise: the amax of each row, so that all ranks bring tensors of as many
// rows, an idle one R x 0; the columns' amaxes stay each rank's own, for the
// ranks' columns are different ones. Of nvfp4: the tensor's amax, and that of
// the transformed tensor (from a rank whose rows are no multiple of 16, which
// has no such copy: 0).
//
// Threads, errors, order of calls: quantizer.h.
#ifndef SCALEKEEPER_QUANTIZER_BLOCK_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_BLOCK_QUANTIZER_H_

#include <cstdint>
#include <string>

#include "amax/amax_group.h"
#include "amax/slot_view.h"
#include "quantizer/block_kernels.h"
#include "quantizer/quantizer.h"
#include "recipe/policy.h"

namespace scalekeeper {

class BlockQuantizer : public Quantizer {
 public:
  // `policy` is rowwise, block, mxfp8 or nvfp4. Borrowed: `slot`'s amax word
  // and `step` (the number of the step; both on `device`), and `group`, which
  // may be null.
  BlockQuantizer(std::string name, const Policy& policy, SlotView slot,
                 const int64_t* step, AmaxGroup* group, Device device,
                 Usages usages, Allocator* allocator);

 protected:
  absl::Status QuantizeImpl(const Call& call, QuantizedTensor* out) override;
  absl::Status CheckOutImpl(const QuantizedTensor& out) const override;
  absl::StatusOr<QuantizedTensor> MakeEmptyImpl(
      const EmptyCall& call) const override;
  absl::Status CalibrateImpl(const Call& call) override;
  SharedAmaxes SharedAmaxesOf(const QuantizedTensor& out) const override;
  absl::Status MeasureSharedImpl(const Call& call, QuantizedTensor* out,
                                 uint32_t* words) override;
  absl::StatusOr<Statistics> MeasureImpl(const ConstTensorView& x,
                                         Stream stream) const override;

 private:
  // Whether the tensor's amaxes must be known before it is cast.
  bool MeasuresFirst() const;
  // Of nvfp4 the tensor's amax for each use into `words`; of rowwise the rows'
  // there and the columns' into out's own workspace. `shared`: for a group, so
  // also for uses that only other ranks' tensors have.
  absl::Status MeasureAmaxes(const Call& call, QuantizedTensor* out,
                             uint32_t* words, bool shared) const;
  absl::Status QuantizeTensor(const Call& call, QuantizedTensor* out) const;

  const Policy policy_;
  const SlotView slot_;
  AmaxGroup* const group_;
  kernels::BlockCastSpec spec_;  // but for what the input's dtype decides
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_BLOCK_QUANTIZER_H_
