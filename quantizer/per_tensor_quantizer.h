// One scale per tensor: delayed and current scaling.
//
// Delayed (numerics.md section 3): the slot's scale, made from amaxes seen
// before this step; one pass casts and observes. Under first_step: MEASURE,
// until an update has set the slot's scale, each Quantize first takes its own
// tensor's amax and scales with that.
//
// Current (section 4): the scale is made from the amax of the tensor that is
// quantized; two passes. The amax is observed too: it changes no scale, but an
// infinity or NaN raises the slot's flag in the next RecipeState::EndStep.
//
// Threads, errors, order of calls: quantizer.h.
#ifndef SCALEKEEPER_QUANTIZER_PER_TENSOR_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_PER_TENSOR_QUANTIZER_H_

#include <string>

#include "amax/slot_view.h"
#include "quantizer/kernels.h"
#include "quantizer/quantizer.h"
#include "recipe/policy.h"

namespace scalekeeper {

class PerTensorQuantizer : public Quantizer {
 public:
  // `policy` is delayed or current. `slot`'s words (of a current one: its amax)
  // outlive the quantizer and lie on `device`. `group` (borrowed, may be null):
  // over which a current one's amaxes are reduced.
  PerTensorQuantizer(std::string name, const Policy& policy, SlotView slot,
                     AmaxGroup* group, Device device, Usages usages,
                     Allocator* allocator);

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
  // Where a cast of `call.x` into `out` takes its scale from, and leaves its
  // inverse.
  kernels::CastScale MakeScale(const Call& call, QuantizedTensor* out) const;

  const Policy policy_;
  const SlotView slot_;
  AmaxGroup* const group_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_PER_TENSOR_QUANTIZER_H_
