#include "quantizer/delayed_quantizer.h"

#include <utility>

#include "base/status_macros.h"
#include "numerics/scale.h"
#include "quantizer/per_tensor.h"

namespace scalekeeper {

DelayedQuantizer::DelayedQuantizer(std::string name, const Policy& policy,
                                   SlotView slot, Device device, Usages usages,
                                   Allocator* allocator)
    : Quantizer(std::move(name), device, usages, allocator),
      policy_(policy),
      slot_(slot) {}

absl::Status DelayedQuantizer::MakeScale(const ConstTensorView& x,
                                         uint32_t* tensor_amax,
                                         const kernels::ScaleOutput& out,
                                         const uint32_t* noop_flag,
                                         Stream stream) const {
  if (slot_.measure != nullptr) {
    SK_RETURN_IF_ERROR(
        MeasureAmax(x, tensor_amax, {noop_flag, slot_.measure}, stream));
  }
  kernels::DelayedScaleInput input;
  input.scale = slot_.scale;
  input.scale_inv = slot_.scale_inv;
  input.measure = slot_.measure;
  input.tensor_amax = tensor_amax;
  input.format_max = FormatMax(policy_.format);
  input.margin = policy_.delayed.margin;
  return kernels::DelayedScale(device(), input, out, {noop_flag}, stream);
}

absl::Status DelayedQuantizer::QuantizeImpl(const Call& call,
                                            QuantizedTensor* out) {
  SK_RETURN_IF_ERROR(CheckMadeUnder(policy_, *out));
  PerTensorBuffers buffers = BuffersOf(out);
  SK_RETURN_IF_ERROR(MakeScale(call.x, buffers.amax, buffers.scale,
                               call.noop_flag, call.stream));
  if (call.observe) buffers.codes.amax = slot_.amax;
  return kernels::Cast(call.x, buffers.scale.scale, policy_.format,
                       buffers.codes, {call.noop_flag}, call.stream);
}

absl::StatusOr<QuantizedTensor> DelayedQuantizer::MakeEmptyImpl(
    int64_t rows, int64_t cols, Usages usages) const {
  return AllocatePerTensor(rows, cols, policy_, usages, device(), allocator());
}

absl::Status DelayedQuantizer::CalibrateImpl(const Call& call) {
  if (!call.observe) return absl::OkStatus();
  return kernels::Amax(call.x, slot_.amax, {call.noop_flag}, call.stream);
}

absl::StatusOr<Statistics> DelayedQuantizer::MeasureImpl(
    const ConstTensorView& x, Stream stream) const {
  // A tensor without elements has the workspace and the scale_inv.
  SK_ASSIGN_OR_RETURN(QuantizedTensor empty,
                      MakeEmptyImpl(0, 0, Usages{true, false}));
  const PerTensorBuffers buffers = BuffersOf(&empty);
  SK_RETURN_IF_ERROR(
      MakeScale(x, buffers.amax, buffers.scale, /*noop_flag=*/nullptr, stream));
  SK_ASSIGN_OR_RETURN(Statistics statistics,
                      kernels::MeasureCast(x, buffers.scale.scale,
                                           buffers.scale.row_wise_scale_inv,
                                           policy_.format, stream));
  statistics.scale_amax = AmaxOfScale(
      statistics.scale_inv, FormatMax(policy_.format), policy_.delayed.margin);
  return statistics;
}

}  // namespace scalekeeper
