#include "quantizer/quantizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "quantizer/all_gather.h"
#include "quantizer/custom_quantizer.h"
#include "quantizer/dequantize.h"
#include "quantizer/inference_guard.h"
#include "quantizer/quantize_many.h"

namespace scalekeeper {

Quantizer::Quantizer(std::string name, Device device, Usages usages,
                     Allocator* allocator)
    : name_(std::move(name)),
      device_(device),
      usages_(usages),
      allocator_(allocator != nullptr ? allocator : HostAllocator()) {}

Quantizer::Quantizer(const CustomQuantizerArgs& args)
    : Quantizer(args.name, args.device, args.usages, args.allocator) {
  custom_ = true;
}

absl::Status Quantizer::CheckInput(const ConstTensorView& x) const {
  SK_RETURN_IF_ERROR(RefreshImpl());
  SK_RETURN_IF_ERROR(ValidateView(x, "x"));
  SK_RETURN_IF_ERROR(CheckHighPrecision(x, "x"));
  if (x.device != device_) {
    return absl::InvalidArgumentError(
        absl::StrCat("x: got device ", Name(x.device), ", want ", Name(device_),
                     " (", name_, ")"));
  }
  return x.empty() ? absl::OkStatus() : known_x_.Check(device_, x.data, "x");
}

bool Quantizer::observes(const ConstTensorView& x) const {
  return observing_ && !x.empty() && !inference_ && !InferenceGuard::active();
}

void Quantizer::SetUsage(Usage usage, bool on) {
  switch (usage) {
    case Usage::kRowWise:
      usages_.row_wise = on;
      break;
    case Usage::kColumnWise:
      usages_.column_wise = on;
      break;
    case Usage::kAllGatherColumnWise:
      usages_.all_gather_column_wise = on;
      break;
  }
}

absl::Status Quantizer::Unimplemented(absl::string_view call) const {
  return absl::UnimplementedError(
      absl::StrCat(name_, ": this quantizer has no ", call));
}

absl::StatusOr<QuantizedTensor> Quantizer::Quantize(ConstTensorView x,
                                                    Stream stream) {
  SK_RETURN_IF_ERROR(CheckInput(x));
  SK_ASSIGN_OR_RETURN(QuantizedTensor out, MakeEmpty(x.rows, x.cols, stream));
  SK_RETURN_IF_ERROR(QuantizeInto(x, &out, /*noop_flag=*/nullptr, stream));
  return out;
}

absl::Status Quantizer::QuantizeInto(ConstTensorView x, QuantizedTensor* out,
                                     const uint32_t* noop_flag, Stream stream) {
  const QuantizeItem item = {this, x, out, noop_flag};
  return QuantizeMany(absl::MakeConstSpan(&item, 1), stream);
}

absl::Status Quantizer::CheckItem(const QuantizeItem& item) const {
  const ConstTensorView& x = item.x;
  const QuantizedTensor* const out = item.out;
  SK_RETURN_IF_ERROR(CheckInput(x));
  if (out == nullptr) {
    return absl::InvalidArgumentError(
        "out: got a null pointer, want a tensor made by MakeEmpty");
  }
  SK_RETURN_IF_ERROR(ValidateTensor(*out, "out"));
  if (out->rows != x.rows || out->cols != x.cols) {
    return absl::InvalidArgumentError(
        absl::StrCat("out: got shape ", out->rows, "x", out->cols, ", want ",
                     x.rows, "x", x.cols, " as x has (", name_, ")"));
  }
  if (out->device != device_) {
    return absl::InvalidArgumentError(
        absl::StrCat("out: got device ", Name(out->device), ", want ",
                     Name(device_), " (", name_, ")"));
  }
  SK_RETURN_IF_ERROR(
      known_noop_flag_.Check(device_, item.noop_flag, "noop_flag"));
  return CheckOut(*out);
}

absl::Status Quantizer::CheckOut(const QuantizedTensor& out) const {
  if (out.dequantizer != maker() &&
      (maker()->custom_ || out.dequantizer != nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("out: got ", Describe(out),
                     " of another quantizer, want one made by MakeEmpty of ",
                     name_, " in this phase"));
  }
  return CheckOutImpl(out);
}

absl::Status Quantizer::CheckOutImpl(const QuantizedTensor&) const {
  return absl::OkStatus();
}

SharedAmaxes Quantizer::SharedAmaxesOf(const QuantizedTensor&) const {
  return {};
}

absl::Status Quantizer::MeasureSharedImpl(const Call&, QuantizedTensor*,
                                          uint32_t*) {
  return Unimplemented("shared amaxes");
}

absl::Status Quantizer::Dequantize(const QuantizedTensor& q, TensorView out,
                                   Stream stream) const {
  SK_RETURN_IF_ERROR(CheckDequantize(q, out));
  return DequantizeTensor(q, out, stream);
}

absl::Status Quantizer::DequantizeTo(const QuantizedTensor& q,
                                     const TensorView& out,
                                     Stream stream) const {
  return DequantizeImpl(q, out, stream);
}

absl::StatusOr<QuantizedTensor> Quantizer::MakeEmpty(int64_t rows, int64_t cols,
                                                     Stream stream) const {
  SK_RETURN_IF_ERROR(RefreshImpl());
  Usages usages = usages_;
  if (usages.row_wise && (inference_ || InferenceGuard::active())) {
    usages = {/*row_wise=*/true};
  }
  return MakeTensor({rows, cols, usages, stream});
}

absl::StatusOr<QuantizedTensor> Quantizer::MakeTensor(
    const EmptyCall& call) const {
  EmptyCall layouts = call;
  if (call.usages.all_gather_column_wise) {
    layouts.usages.column_wise = true;
    layouts.usages.all_gather_column_wise = false;
  }
  SK_ASSIGN_OR_RETURN(QuantizedTensor tensor, MakeEmptyImpl(layouts));
  if (call.usages.all_gather_column_wise) {
    SK_RETURN_IF_ERROR(CheckCanGather(tensor, name_));
    tensor.all_gather_column_wise = true;
  }
  if (tensor.scaling == Scaling::kCustom && tensor.dequantizer == nullptr) {
    tensor.dequantizer = this;
  }
  return tensor;
}

absl::Status Quantizer::Calibrate(ConstTensorView x, Stream stream) {
  SK_RETURN_IF_ERROR(CheckInput(x));
  return CalibrateImpl({x, /*noop_flag=*/nullptr, observes(x),
                        /*counters=*/nullptr, stream});
}

absl::StatusOr<Statistics> Quantizer::Measure(ConstTensorView x,
                                              Stream stream) const {
  SK_RETURN_IF_ERROR(CheckInput(x));
  return MeasureImpl(x, stream);
}

absl::StatusOr<QuantizedTensor> Quantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  if (call.usages.column_wise) return Unimplemented("column-wise usage");
  Policy policy;
  policy.scaling = Scaling::kCustom;
  return Allocate(call, policy);
}

absl::StatusOr<QuantizedTensor> Quantizer::Allocate(
    const EmptyCall& call, const Policy& policy) const {
  absl::StatusOr<QuantizedTensor> tensor =
      AllocateQuantized(call.rows, call.cols, policy, call.usages, device_,
                        allocator_, call.stream);
  if (tensor.ok()) return tensor;
  return absl::Status(tensor.status().code(),
                      absl::StrCat(name_, ": ", tensor.status().message()));
}

absl::Status Quantizer::DequantizeImpl(const QuantizedTensor&,
                                       const TensorView&, Stream) const {
  return Unimplemented("Dequantize");
}

absl::Status Quantizer::CalibrateImpl(const Call&) {
  return Unimplemented("Calibrate");
}

absl::StatusOr<Statistics> Quantizer::MeasureImpl(const ConstTensorView&,
                                                  Stream) const {
  return Unimplemented("Measure");
}

absl::Status Quantizer::CheckMadeUnder(const Policy& policy,
                                       const QuantizedTensor& out) const {
  if (IsLaidOutFor(out, policy)) return absl::OkStatus();
  const bool high_precision = policy.scaling == Scaling::kHighPrecision;
  return absl::InvalidArgumentError(absl::StrCat(
      "out: got ", Describe(out), ", want ", Name(policy.scaling), " ",
      high_precision ? Name(policy.high_precision_dtype) : Name(policy.format),
      ": make it with MakeEmpty of ", name_, " in this phase"));
}

}  // namespace scalekeeper
