// Delayed scaling (numerics.md section 3): the slot's scale, made from amaxes
// seen before this step.
//
// One pass over the tensor casts and observes. Under first_step: MEASURE, until
// an update has set the slot's scale, each Quantize first takes its own
// tensor's amax and scales with that. Threads, errors, order of calls:
// quantizer.h.
#ifndef SCALEKEEPER_QUANTIZER_DELAYED_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_DELAYED_QUANTIZER_H_

#include <string>

#include "amax/slot_view.h"
#include "quantizer/kernels.h"
#include "quantizer/per_tensor.h"
#include "quantizer/quantizer.h"
#include "recipe/policy.h"

namespace scalekeeper {

class DelayedQuantizer : public Quantizer {
 public:
  // `slot`'s words outlive the quantizer and lie on `device`.
  DelayedQuantizer(std::string name, const Policy& policy, SlotView slot,
                   Device device, Usages usages, Allocator* allocator);

 protected:
  absl::Status QuantizeImpl(const Call& call, QuantizedTensor* out) override;
  absl::StatusOr<QuantizedTensor> MakeEmptyImpl(
      const EmptyCall& call) const override;
  absl::Status CalibrateImpl(const Call& call) override;
  absl::StatusOr<Statistics> MeasureImpl(const ConstTensorView& x,
                                         Stream stream) const override;

 private:
  // Where a cast of `x` into a tensor with these buffers takes its scale from.
  absl::StatusOr<kernels::CastScale> MakeScale(const ConstTensorView& x,
                                               const PerTensorBuffers& buffers,
                                               const uint32_t* noop_flag,
                                               Stream stream) const;

  const Policy policy_;
  const SlotView slot_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_DELAYED_QUANTIZER_H_
