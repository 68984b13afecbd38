#include "quantizer/slot_quantizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace scalekeeper {

SlotQuantizer::SlotQuantizer(const RecipeState* state, SlotId slot, Maker maker,
                             Usages usages, Allocator* allocator)
    : Quantizer(state->name(slot), state->device(), usages, allocator),
      state_(state),
      slot_(slot),
      make_(maker) {}

absl::Status SlotQuantizer::RefreshImpl() const {
  const int64_t generation = state_->generation();
  if (generation_.load(std::memory_order_acquire) == generation) {
    return absl::OkStatus();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (generation_.load(std::memory_order_relaxed) == generation) {
    return absl::OkStatus();
  }
  if (!state_->Has(slot_)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), ": its module was removed from the RecipeState"));
  }
  SK_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Quantizer>> phases,
                      make_(*state_, slot_, usages(), allocator()));
  for (std::unique_ptr<Quantizer>& old : phases_) {
    retired_.push_back(std::move(old));
  }
  phases_ = std::move(phases);
  generation_.store(generation, std::memory_order_release);
  return absl::OkStatus();
}

Quantizer* SlotQuantizer::active() const {
  return phases_.size() == 1
             ? phases_.front().get()
             : phases_[static_cast<size_t>(state_->active_phase())].get();
}

absl::Status SlotQuantizer::QuantizeImpl(const Call& call,
                                         QuantizedTensor* out) {
  return active()->QuantizeImpl(call, out);
}

absl::Status SlotQuantizer::CheckOutImpl(const QuantizedTensor& out) const {
  return active()->CheckOutImpl(out);
}

absl::StatusOr<QuantizedTensor> SlotQuantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return active()->MakeTensor(call);
}

absl::Status SlotQuantizer::CalibrateImpl(const Call& call) {
  return active()->CalibrateImpl(call);
}

SharedAmaxes SlotQuantizer::SharedAmaxesOf(const QuantizedTensor& out) const {
  return active()->SharedAmaxesOf(out);
}

absl::Status SlotQuantizer::MeasureSharedImpl(const Call& call,
                                              QuantizedTensor* out,
                                              uint32_t* words) {
  return active()->MeasureSharedImpl(call, out, words);
}

absl::StatusOr<Statistics> SlotQuantizer::MeasureImpl(const ConstTensorView& x,
                                                      Stream stream) const {
  return active()->MeasureImpl(x, stream);
}

}  // namespace scalekeeper
