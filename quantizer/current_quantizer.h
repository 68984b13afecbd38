// Current scaling (numerics.md section 4), one scale per tensor, made from the
// amax of the tensor that is quantized: two passes. The amax is observed too: it
// changes no scale, but an infinity or NaN raises the slot's flag in the next
// RecipeState::EndStep.
//
// Threads, errors, order of calls: quantizer.h.
#ifndef SCALEKEEPER_QUANTIZER_CURRENT_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_CURRENT_QUANTIZER_H_

#include <string>

#include "amax/slot_view.h"
#include "quantizer/kernels.h"
#include "quantizer/per_tensor.h"
#include "quantizer/quantizer.h"
#include "recipe/policy.h"

namespace scalekeeper {

class CurrentQuantizer : public Quantizer {
 public:
  // Of `slot` only the amax word, where a non-finite amax raises the flag; it
  // outlives the quantizer and lies on `device`.
  CurrentQuantizer(std::string name, const Policy& policy, SlotView slot,
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

#endif  // SCALEKEEPER_QUANTIZER_CURRENT_QUANTIZER_H_
