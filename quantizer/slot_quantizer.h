// What MakeQuantizer returns: every call goes to the quantizer that the slot's
// policy has in the phase that is active in the RecipeState.
//
// After a change of the state (amax/change_state.h) the next call makes these
// anew, under the recipe that holds then; when the slot's module was removed,
// calls are FailedPrecondition.
//
// A tensor that was made in one phase, or before a change, can be dequantized
// and multiplied in any other; QuantizeInto it is an error where the format or
// scaling has changed.
#ifndef SCALEKEEPER_QUANTIZER_SLOT_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_SLOT_QUANTIZER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "amax/recipe_state.h"
#include "quantizer/quantizer.h"

namespace scalekeeper {

class SlotQuantizer : public Quantizer {
 public:
  // One quantizer per phase, or one when all are the same.
  using Maker = absl::StatusOr<std::vector<std::unique_ptr<Quantizer>>> (*)(
      const RecipeState& state, SlotId slot, Usages usages,
      Allocator* allocator);

  // `state` is borrowed. Makes nothing before the first call.
  SlotQuantizer(const RecipeState* state, SlotId slot, Maker maker,
                Usages usages, Allocator* allocator);

  // Makes what is not made yet.
  absl::Status RefreshImpl() const override;

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
  Quantizer* active() const;
  const Quantizer* maker() const override { return active(); }

  const RecipeState* const state_;
  const SlotId slot_;
  const Maker make_;
  // Written under the mutex.
  mutable std::mutex mutex_;
  mutable std::atomic<int64_t> generation_{-1};  // of the state, of phases_
  mutable std::vector<std::unique_ptr<Quantizer>> phases_;
  // Of earlier generations: tensors of custom scaling need them.
  mutable std::vector<std::unique_ptr<Quantizer>> retired_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_SLOT_QUANTIZER_H_
