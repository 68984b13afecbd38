#include "quantizer/high_precision_quantizer.h"

#include <utility>

#include "base/status_macros.h"
#include "quantizer/kernels.h"

namespace scalekeeper {

HighPrecisionQuantizer::HighPrecisionQuantizer(std::string name,
                                               const Policy& policy,
                                               Device device, Usages usages,
                                               Allocator* allocator)
    : Quantizer(std::move(name), device, usages, allocator), policy_(policy) {}

absl::Status HighPrecisionQuantizer::QuantizeImpl(const Call& call,
                                                  QuantizedTensor* out) {
  const DType dtype = policy_.high_precision_dtype;
  const ConstTensorView& x = call.x;
  if (out->row_wise) {
    const auto copy = TensorView::Contiguous(out->row_wise->codes.data(), dtype,
                                             x.rows, x.cols, device());
    SK_RETURN_IF_ERROR(
        kernels::Convert(x, copy, {call.noop_flag}, call.stream));
  }
  if (out->column_wise) {
    const auto copy = TensorView::Contiguous(out->column_wise->codes.data(),
                                             dtype, x.cols, x.rows, device());
    SK_RETURN_IF_ERROR(
        kernels::Convert(x, copy.Transposed(), {call.noop_flag}, call.stream));
  }
  return absl::OkStatus();
}

absl::Status HighPrecisionQuantizer::CheckOutImpl(
    const QuantizedTensor& out) const {
  return CheckMadeUnder(policy_, out);
}

absl::StatusOr<QuantizedTensor> HighPrecisionQuantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return Allocate(call, policy_);
}

absl::Status HighPrecisionQuantizer::CalibrateImpl(const Call&) {
  return absl::OkStatus();
}

absl::StatusOr<Statistics> HighPrecisionQuantizer::MeasureImpl(
    const ConstTensorView& x, Stream stream) const {
  return kernels::MeasureConvert(x, policy_.high_precision_dtype, stream);
}

}  // namespace scalekeeper
