#include "quantizer/dequantize.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "quantizer/dequantizer.h"
#include "quantizer/kernels.h"

namespace scalekeeper {
namespace {

absl::Status ValidateUse(const QuantizedTensor& tensor,
                         const QuantizedData& data, absl::string_view what,
                         absl::string_view use) {
  const size_t want = static_cast<size_t>(tensor.rows * tensor.cols) *
                      SizeOf(tensor.code_dtype());
  if (data.codes.size() != want) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ".", use, ".codes: got ", data.codes.size(),
                     " bytes, want ", want, " for ", Describe(tensor)));
  }
  if (tensor.scaling == Scaling::kHighPrecision) return absl::OkStatus();
  const size_t scales =
      static_cast<size_t>(data.scales.rows * data.scales.cols) * sizeof(float);
  if (scales == 0 || data.scale_inv.size() != scales) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ".", use, ".scale_inv: got ", data.scale_inv.size(),
                     " bytes for ", data.scales.rows, "x", data.scales.cols,
                     " scales of ", Describe(tensor)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTensor(const QuantizedTensor& tensor,
                            absl::string_view what) {
  if (tensor.rows < 0 || tensor.cols < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": got shape ", tensor.rows, "x", tensor.cols,
                     ", want extents >= 0"));
  }
  if (!tensor.row_wise && !tensor.column_wise) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     ": got a tensor without row-wise or column-wise data"
                     " (default-constructed or moved from?)"));
  }
  if (tensor.scaling == Scaling::kCustom) {
    // What its buffers hold, its maker alone knows.
    if (tensor.dequantizer != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        what, ".dequantizer: got null for ", Describe(tensor),
        ", want the quantizer that made it (Quantizer::MakeEmpty sets it)"));
  }
  if (tensor.row_wise) {
    SK_RETURN_IF_ERROR(ValidateUse(tensor, *tensor.row_wise, what, "row_wise"));
  }
  if (tensor.column_wise) {
    SK_RETURN_IF_ERROR(
        ValidateUse(tensor, *tensor.column_wise, what, "column_wise"));
  }
  return absl::OkStatus();
}

absl::Status CheckHighPrecision(const ConstTensorView& view,
                                absl::string_view what) {
  if (view.dtype != DType::kUint8) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": got dtype ", Name(view.dtype),
                   ", want float32, bfloat16 or float16"));
}

absl::Status CheckDequantize(const QuantizedTensor& q, const TensorView& out) {
  SK_RETURN_IF_ERROR(ValidateTensor(q, "q"));
  SK_RETURN_IF_ERROR(CheckHighPrecision(out, "out"));
  SK_RETURN_IF_ERROR(ValidateOutputView(out, "out"));
  if (out.rows != q.rows || out.cols != q.cols) {
    return absl::InvalidArgumentError(
        absl::StrCat("out: got shape ", out.rows, "x", out.cols, ", want ",
                     q.rows, "x", q.cols, " as q has"));
  }
  if (out.device != q.device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "out: got device ", Name(out.device), ", want ", Name(q.device)));
  }
  return absl::OkStatus();
}

absl::Status DequantizeTensor(const QuantizedTensor& q, const TensorView& out,
                              Stream stream) {
  const ConstTensorView codes =
      q.row_wise ? RowWiseCodes(q) : ColumnWiseCodes(q);
  switch (q.scaling) {
    case Scaling::kHighPrecision:
      return kernels::Convert(codes, out, {}, stream);
    case Scaling::kDelayed:
    case Scaling::kCurrent: {
      const QuantizedData& data = q.row_wise ? *q.row_wise : *q.column_wise;
      return kernels::Decode(codes, q.format, data.scale_inv.as<float>(), out,
                             stream);
    }
    case Scaling::kCustom:
      return q.dequantizer->DequantizeTo(q, out, stream);
    default:
      return absl::UnimplementedError(absl::StrCat(
          "q: Dequantize does not know scaling ", Name(q.scaling)));
  }
}

}  // namespace scalekeeper
