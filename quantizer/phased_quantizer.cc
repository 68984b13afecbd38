#include "quantizer/phased_quantizer.h"

#include <utility>

namespace scalekeeper {

PhasedQuantizer::PhasedQuantizer(const RecipeState* state, std::string name,
                                 std::vector<std::unique_ptr<Quantizer>> phases,
                                 Device device, Usages usages,
                                 Allocator* allocator)
    : Quantizer(std::move(name), device, usages, allocator),
      state_(state),
      phases_(std::move(phases)) {}

Quantizer* PhasedQuantizer::active() const {
  return phases_[static_cast<size_t>(state_->active_phase())].get();
}

absl::Status PhasedQuantizer::QuantizeImpl(const Call& call,
                                           QuantizedTensor* out) {
  return active()->QuantizeImpl(call, out);
}

absl::Status PhasedQuantizer::CheckOutImpl(const QuantizedTensor& out) const {
  return active()->CheckOutImpl(out);
}

absl::StatusOr<QuantizedTensor> PhasedQuantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return active()->MakeTensor(call);
}

absl::Status PhasedQuantizer::CalibrateImpl(const Call& call) {
  return active()->CalibrateImpl(call);
}

SharedAmaxes PhasedQuantizer::SharedAmaxesOf(const QuantizedTensor& out) const {
  return active()->SharedAmaxesOf(out);
}

absl::Status PhasedQuantizer::MeasureSharedImpl(const Call& call,
                                                QuantizedTensor* out,
                                                uint32_t* words) {
  return active()->MeasureSharedImpl(call, out, words);
}

absl::StatusOr<Statistics> PhasedQuantizer::MeasureImpl(
    const ConstTensorView& x, Stream stream) const {
  return active()->MeasureImpl(x, stream);
}

}  // namespace scalekeeper
