// A slot whose policy differs between the recipe's phases: every call goes to
// the quantizer of the phase that is active in the RecipeState.
//
// A tensor that was made in one phase can be dequantized and multiplied in any
// other; QuantizeInto it is an error where the format or scaling has changed.
#ifndef SCALEKEEPER_QUANTIZER_PHASED_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_PHASED_QUANTIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "amax/recipe_state.h"
#include "quantizer/quantizer.h"

namespace scalekeeper {

class PhasedQuantizer : public Quantizer {
 public:
  // One quantizer per phase of `state`'s recipe; `state` is borrowed.
  PhasedQuantizer(const RecipeState* state, std::string name,
                  std::vector<std::unique_ptr<Quantizer>> phases, Device device,
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
  Quantizer* active() const;
  const Quantizer* maker() const override { return active(); }

  const RecipeState* const state_;
  const std::vector<std::unique_ptr<Quantizer>> phases_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_PHASED_QUANTIZER_H_
