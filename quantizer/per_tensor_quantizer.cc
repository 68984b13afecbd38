#include "quantizer/per_tensor_quantizer.h"

#include <utility>

#include "base/status_macros.h"
#include "numerics/scale.h"

namespace scalekeeper {

using kernels::AmaxScratch;
using kernels::CastScale;

PerTensorQuantizer::PerTensorQuantizer(std::string name, const Policy& policy,
                                       SlotView slot, AmaxGroup* group,
                                       Device device, Usages usages,
                                       Allocator* allocator)
    : Quantizer(std::move(name), device, usages, allocator),
      policy_(policy),
      slot_(slot),
      group_(group) {}

CastScale PerTensorQuantizer::MakeScale(const Call& call,
                                        QuantizedTensor* out) const {
  const bool delayed = policy_.scaling == Scaling::kDelayed;
  CastScale scale;
  scale.kind = delayed ? CastScale::Kind::kDelayed : CastScale::Kind::kCurrent;
  scale.scale = slot_.scale;
  if (delayed && policy_.delayed.first_step == FirstStep::kMeasure) {
    scale.measure = slot_.measure;
  }
  if (call.shared_amaxes != nullptr) {
    scale.tensor_amax = call.shared_amaxes;
  } else {
    scale.scratch = out->workspace.as<AmaxScratch>();
    scale.tensor_amax = &scale.scratch->amax;
  }
  scale.margin = policy_.delayed.margin;
  scale.current.format_max = FormatMax(policy_.format);
  scale.current.power_2_scale = policy_.current.power_2_scale;
  scale.current.amax_epsilon = policy_.current.amax_epsilon;
  if (out->row_wise) {
    scale.row_wise_scale_inv = out->row_wise->scale_inv.as<float>();
  }
  if (out->column_wise) {
    scale.column_wise_scale_inv = out->column_wise->scale_inv.as<float>();
  }
  return scale;
}

absl::Status PerTensorQuantizer::QuantizeImpl(const Call& call,
                                              QuantizedTensor* out) {
  kernels::CastOutput codes;
  if (out->row_wise) codes.row_wise = out->row_wise->codes.as<uint8_t>();
  if (out->column_wise) {
    codes.column_wise = out->column_wise->codes.as<uint8_t>();
  }
  if (call.observe) codes.amax = slot_.amax;
  codes.counters = call.counters;
  return kernels::Cast(call.x, MakeScale(call, out), policy_.format, codes,
                       {call.noop_flag}, call.stream);
}

absl::Status PerTensorQuantizer::CheckOutImpl(
    const QuantizedTensor& out) const {
  return CheckMadeUnder(policy_, out);
}

absl::StatusOr<QuantizedTensor> PerTensorQuantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return Allocate(call, policy_);
}

absl::Status PerTensorQuantizer::CalibrateImpl(const Call& call) {
  if (!call.observe) return absl::OkStatus();
  return kernels::Amax(call.x, slot_.amax, {call.noop_flag}, call.stream);
}

SharedAmaxes PerTensorQuantizer::SharedAmaxesOf(const QuantizedTensor&) const {
  return {group_, group_ == nullptr ? size_t{0} : size_t{1}};
}

absl::Status PerTensorQuantizer::MeasureSharedImpl(const Call& call,
                                                   QuantizedTensor*,
                                                   uint32_t* words) {
  return kernels::Amax(call.x, words, {call.noop_flag}, call.stream);
}

absl::StatusOr<Statistics> PerTensorQuantizer::MeasureImpl(
    const ConstTensorView& x, Stream stream) const {
  // A tensor without elements has the workspace.
  SK_ASSIGN_OR_RETURN(QuantizedTensor empty,
                      MakeEmptyImpl({0, 0, Usages{true, false}, stream}));
  Call call;
  call.x = x;
  call.stream = stream;
  const CastScale scale = MakeScale(call, &empty);
  if (scale.kind == CastScale::Kind::kCurrent || scale.measure != nullptr) {
    SK_RETURN_IF_ERROR(kernels::TensorAmax(x, scale.scratch,
                                           {nullptr, scale.measure}, stream));
  }
  SK_ASSIGN_OR_RETURN(Statistics statistics,
                      kernels::MeasureCast(x, scale, policy_.format, stream));
  if (policy_.scaling == Scaling::kDelayed) {
    statistics.scale_amax =
        AmaxOfScale(statistics.scale_inv, FormatMax(policy_.format),
                    policy_.delayed.margin);
  }
  return statistics;
}

}  // namespace scalekeeper
