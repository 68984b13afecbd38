#include "quantizer/dequantize.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "quantizer/dequantizer.h"
#include "quantizer/kernels.h"

namespace scalekeeper {
namespace {

// Bytes of `rows` rows of `cols` codes.
int64_t CodeBytes(const QuantizedTensor& tensor, int64_t rows, int64_t cols) {
  if (tensor.scaling != Scaling::kHighPrecision &&
      tensor.format == Format::kE2M1) {
    return rows * ((cols + 1) / 2);
  }
  return rows * cols * static_cast<int64_t>(SizeOf(tensor.code_dtype()));
}

// Bytes that a grid reaches over.
int64_t ScaleBytes(const BlockScales& scales, int64_t rows) {
  if (scales.rows == 0 || scales.cols == 0) return 0;
  if (scales.layout == ScaleLayout::kTiled) {
    return (rows + 127) / 128 * ((scales.cols + 3) / 4) * 512;
  }
  const int64_t entries = (scales.rows - 1) * scales.row_stride +
                          (scales.cols - 1) * scales.col_stride + 1;
  return scales.type == ScaleType::kFloat
             ? entries * static_cast<int64_t>(sizeof(float))
             : entries;
}

// Of a use with rows x cols codes: a grid of scales that covers them.
absl::Status ValidateGrid(const QuantizedTensor& tensor,
                          const QuantizedData& data, int64_t rows, int64_t cols,
                          absl::string_view name) {
  const BlockScales& scales = data.scales;
  const auto blocks = [](int64_t n, int64_t of) { return (n + of - 1) / of; };
  const int64_t want_cols = tensor.scaling == Scaling::kRowwise
                                ? 1  // of an empty row too
                                : blocks(cols, scales.block_cols);
  if (scales.block_rows < 1 || scales.block_cols < 1 ||
      scales.rows != blocks(rows, scales.block_rows) ||
      scales.cols != want_cols) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ".scales: got a grid of ", scales.rows, "x", scales.cols, " of ",
        scales.block_rows, "x", scales.block_cols, " blocks for ", rows, "x",
        cols, " codes of ", Describe(tensor)));
  }
  const int64_t want = ScaleBytes(scales, rows);
  if (static_cast<int64_t>(data.scale_inv.size()) < want ||
      (want > 0 && scales.data == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".scale_inv: got ", data.scale_inv.size(),
                     " bytes, want ", want, " for ", Describe(tensor)));
  }
  if (scales.type == ScaleType::kE4M3 && scales.tensor_scale_inv == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".scales.tensor_scale_inv: got a null pointer for ",
                     Describe(tensor)));
  }
  return absl::OkStatus();
}

// `rows` x `cols` is the shape of the use's codes.
absl::Status ValidateUse(const QuantizedTensor& tensor,
                         const QuantizedData& data, int64_t rows, int64_t cols,
                         absl::string_view name) {
  const int64_t want = CodeBytes(tensor, rows, cols);
  if (static_cast<int64_t>(data.codes.size()) != want) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".codes: got ", data.codes.size(), " bytes, want ",
                     want, " for ", Describe(tensor)));
  }
  switch (tensor.scaling) {
    case Scaling::kHighPrecision:
      return absl::OkStatus();
    case Scaling::kRowwise:
    case Scaling::kBlock:
    case Scaling::kMxfp8:
    case Scaling::kNvfp4:
      return ValidateGrid(tensor, data, rows, cols, name);
    default:
      break;
  }
  const size_t scales =
      static_cast<size_t>(data.scales.rows * data.scales.cols) * sizeof(float);
  if (scales == 0 || data.scale_inv.size() != scales) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".scale_inv: got ", data.scale_inv.size(),
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
    SK_RETURN_IF_ERROR(ValidateUse(tensor, *tensor.row_wise, tensor.rows,
                                   tensor.cols,
                                   absl::StrCat(what, ".row_wise")));
  }
  if (tensor.column_wise) {
    SK_RETURN_IF_ERROR(ValidateUse(tensor, *tensor.column_wise, tensor.cols,
                                   tensor.rows,
                                   absl::StrCat(what, ".column_wise")));
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
