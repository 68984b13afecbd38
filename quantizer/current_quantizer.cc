#include "quantizer/current_quantizer.h"

#include <utility>

#include "base/status_macros.h"
#include "numerics/scale.h"
#include "quantizer/per_tensor.h"

namespace scalekeeper {

CurrentQuantizer::CurrentQuantizer(std::string name, const Policy& policy,
                                   Device device, Usages usages,
                                   Allocator* allocator)
    : Quantizer(std::move(name), device, usages, allocator), policy_(policy) {}

absl::Status CurrentQuantizer::MakeScale(const ConstTensorView& x,
                                         uint32_t* tensor_amax,
                                         const kernels::ScaleOutput& out,
                                         const uint32_t* noop_flag,
                                         Stream stream) const {
  SK_RETURN_IF_ERROR(MeasureAmax(x, tensor_amax, {noop_flag}, stream));
  CurrentScaleOptions options;
  options.format_max = FormatMax(policy_.format);
  options.power_2_scale = policy_.current.power_2_scale;
  options.amax_epsilon = policy_.current.amax_epsilon;
  return kernels::CurrentScale(device(), tensor_amax, options, out, {noop_flag},
                               stream);
}

absl::Status CurrentQuantizer::QuantizeImpl(const Call& call,
                                            QuantizedTensor* out) {
  SK_RETURN_IF_ERROR(CheckMadeUnder(policy_, *out));
  const PerTensorBuffers buffers = BuffersOf(out);
  SK_RETURN_IF_ERROR(MakeScale(call.x, buffers.amax, buffers.scale,
                               call.noop_flag, call.stream));
  return kernels::Cast(call.x, buffers.scale.scale, policy_.format,
                       buffers.codes, {call.noop_flag}, call.stream);
}

absl::StatusOr<QuantizedTensor> CurrentQuantizer::MakeEmptyImpl(
    int64_t rows, int64_t cols, Usages usages) const {
  return AllocatePerTensor(rows, cols, policy_, usages, device(), allocator());
}

absl::Status CurrentQuantizer::CalibrateImpl(const Call&) {
  return absl::OkStatus();
}

absl::StatusOr<Statistics> CurrentQuantizer::MeasureImpl(
    const ConstTensorView& x, Stream stream) const {
  // A tensor without elements has the workspace and the scale_inv.
  SK_ASSIGN_OR_RETURN(QuantizedTensor empty,
                      MakeEmptyImpl(0, 0, Usages{true, false}));
  const PerTensorBuffers buffers = BuffersOf(&empty);
  SK_RETURN_IF_ERROR(
      MakeScale(x, buffers.amax, buffers.scale, /*noop_flag=*/nullptr, stream));
  return kernels::MeasureCast(x, buffers.scale.scale,
                              buffers.scale.row_wise_scale_inv, policy_.format,
                              stream);
}

}  // namespace scalekeeper
