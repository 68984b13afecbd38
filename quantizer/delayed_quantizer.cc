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

absl::StatusOr<kernels::CastScale> DelayedQuantizer::MakeScale(
    const ConstTensorView& x, const PerTensorBuffers& buffers,
    const uint32_t* noop_flag, Stream stream) const {
  if (slot_.measure != nullptr) {
    SK_RETURN_IF_ERROR(kernels::TensorAmax(x, buffers.amax,
                                           {noop_flag, slot_.measure}, stream));
  }
  kernels::CastScale scale;
  scale.kind = kernels::CastScale::Kind::kDelayed;
  scale.scale = slot_.scale;
  scale.measure = slot_.measure;
  scale.tensor_amax = &buffers.amax->amax;
  scale.margin = policy_.delayed.margin;
  scale.current.format_max = FormatMax(policy_.format);
  scale.row_wise_scale_inv = buffers.row_wise_scale_inv;
  scale.column_wise_scale_inv = buffers.column_wise_scale_inv;
  return scale;
}

absl::Status DelayedQuantizer::QuantizeImpl(const Call& call,
                                            QuantizedTensor* out) {
  SK_RETURN_IF_ERROR(CheckMadeUnder(policy_, *out));
  PerTensorBuffers buffers = BuffersOf(out);
  SK_ASSIGN_OR_RETURN(const kernels::CastScale scale,
                      MakeScale(call.x, buffers, call.noop_flag, call.stream));
  if (call.observe) buffers.codes.amax = slot_.amax;
  buffers.codes.counters = call.counters;
  return kernels::Cast(call.x, scale, policy_.format, buffers.codes,
                       {call.noop_flag}, call.stream);
}

absl::StatusOr<QuantizedTensor> DelayedQuantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return AllocatePerTensor(call.rows, call.cols, policy_, call.usages, device(),
                           allocator(), call.stream);
}

absl::Status DelayedQuantizer::CalibrateImpl(const Call& call) {
  if (!call.observe) return absl::OkStatus();
  return kernels::Amax(call.x, slot_.amax, {call.noop_flag}, call.stream);
}

absl::StatusOr<Statistics> DelayedQuantizer::MeasureImpl(
    const ConstTensorView& x, Stream stream) const {
  // A tensor without elements has the workspace.
  SK_ASSIGN_OR_RETURN(QuantizedTensor empty,
                      MakeEmptyImpl({0, 0, Usages{true, false}, stream}));
  SK_ASSIGN_OR_RETURN(
      const kernels::CastScale scale,
      MakeScale(x, BuffersOf(&empty), /*noop_flag=*/nullptr, stream));
  SK_ASSIGN_OR_RETURN(Statistics statistics,
                      kernels::MeasureCast(x, scale, policy_.format, stream));
  statistics.scale_amax = AmaxOfScale(
      statistics.scale_inv, FormatMax(policy_.format), policy_.delayed.margin);
  return statistics;
}

}  // namespace scalekeeper
