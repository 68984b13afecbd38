#include "quantizer/current_quantizer.h"

#include <utility>

#include "base/status_macros.h"
#include "numerics/scale.h"
#include "quantizer/per_tensor.h"

namespace scalekeeper {

CurrentQuantizer::CurrentQuantizer(std::string name, const Policy& policy,
                                   SlotView slot, Device device, Usages usages,
                                   Allocator* allocator)
    : Quantizer(std::move(name), device, usages, allocator),
      policy_(policy),
      slot_(slot) {}

absl::StatusOr<kernels::CastScale> CurrentQuantizer::MakeScale(
    const ConstTensorView& x, const PerTensorBuffers& buffers,
    const uint32_t* noop_flag, Stream stream) const {
  SK_RETURN_IF_ERROR(kernels::TensorAmax(x, buffers.amax, {noop_flag}, stream));
  kernels::CastScale scale;
  scale.kind = kernels::CastScale::Kind::kCurrent;
  scale.tensor_amax = &buffers.amax->amax;
  scale.current.format_max = FormatMax(policy_.format);
  scale.current.power_2_scale = policy_.current.power_2_scale;
  scale.current.amax_epsilon = policy_.current.amax_epsilon;
  scale.row_wise_scale_inv = buffers.row_wise_scale_inv;
  scale.column_wise_scale_inv = buffers.column_wise_scale_inv;
  return scale;
}

absl::Status CurrentQuantizer::QuantizeImpl(const Call& call,
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

absl::StatusOr<QuantizedTensor> CurrentQuantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return AllocatePerTensor(call.rows, call.cols, policy_, call.usages, device(),
                           allocator(), call.stream);
}

absl::Status CurrentQuantizer::CalibrateImpl(const Call& call) {
  if (!call.observe) return absl::OkStatus();
  return kernels::Amax(call.x, slot_.amax, {call.noop_flag}, call.stream);
}

absl::StatusOr<Statistics> CurrentQuantizer::MeasureImpl(
    const ConstTensorView& x, Stream stream) const {
  // A tensor without elements has the workspace.
  SK_ASSIGN_OR_RETURN(QuantizedTensor empty,
                      MakeEmptyImpl({0, 0, Usages{true, false}, stream}));
  SK_ASSIGN_OR_RETURN(
      const kernels::CastScale scale,
      MakeScale(x, BuffersOf(&empty), /*noop_flag=*/nullptr, stream));
  return kernels::MeasureCast(x, scale, policy_.format, stream);
}

}  // namespace scalekeeper
