#include "quantizer/dequantize.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "quantizer/block_kernels.h"
#include "quantizer/dequantizer.h"
#include "quantizer/kernels.h"
#include "quantizer/scale_grid.h"

namespace scalekeeper {
namespace {

absl::Status ValidateUse(const QuantizedTensor& tensor, bool column_wise,
                         absl::string_view what) {
  const QuantizedData& data =
      column_wise ? *tensor.column_wise : *tensor.row_wise;
  const absl::string_view use = column_wise ? "column_wise" : "row_wise";
  const size_t codes = CodeBytes(tensor, column_wise);
  if (data.codes.size() != codes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ".", use, ".codes: got ", data.codes.size(),
                     " bytes, want ", codes, " for ", Describe(tensor)));
  }
  if (tensor.scaling == Scaling::kHighPrecision) return absl::OkStatus();
  const BlockScales& scales = data.scales;
  if (scales.type != ScaleTypeOf(tensor.scaling)) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ".", use, ".scales: got ", Name(scales.type), ", want ",
        Name(ScaleTypeOf(tensor.scaling)), " for ", Describe(tensor)));
  }
  const int64_t code_rows = column_wise ? tensor.cols : tensor.rows;
  const int64_t code_cols = column_wise ? tensor.rows : tensor.cols;
  if (!CoversCodes(scales, code_rows, code_cols) ||
      data.scale_inv.size() != ScaleBytes(scales, code_rows) ||
      data.scale_inv.data() != scales.data) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ".", use, ".scale_inv: got ", data.scale_inv.size(),
                     " bytes for ", scales.rows, "x", scales.cols,
                     " scales of ", Describe(tensor)));
  }
  if (scales.type == ScaleType::kE4M3 &&
      (data.tensor_scale_inv.size() != sizeof(float) ||
       data.tensor_scale_inv.data() != scales.tensor_scale_inv)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ".", use, ".tensor_scale_inv: got ",
                     data.tensor_scale_inv.size(), " bytes, want one float32"));
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
    SK_RETURN_IF_ERROR(ValidateUse(tensor, /*column_wise=*/false, what));
  }
  if (tensor.column_wise) {
    SK_RETURN_IF_ERROR(ValidateUse(tensor, /*column_wise=*/true, what));
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
  const QuantizedData& data = q.row_wise ? *q.row_wise : *q.column_wise;
  const auto codes = [&q] {
    return q.row_wise ? RowWiseCodes(q) : ColumnWiseCodes(q);
  };
  switch (q.scaling) {
    case Scaling::kHighPrecision:
      return kernels::Convert(codes(), out, {}, stream);
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      return kernels::Decode(codes(), q.format, data.scale_inv.as<float>(), out,
                             stream);
    case Scaling::kRowwise:
    case Scaling::kBlock:
    case Scaling::kMxfp8:
    case Scaling::kNvfp4:
      return kernels::BlockDecode(
          data.codes.as<uint8_t>(), q.format, data.scales, data.hadamard,
          q.row_wise ? out : TensorView(out.Transposed()), stream);
    case Scaling::kCustom:
      return q.dequantizer->DequantizeTo(q, out, stream);
  }
  return absl::InternalError("q.scaling: not one of the enumeration");
}

}  // namespace scalekeeper
