// QuantizedTensor::UpdateUsage.
//
// A copy is made from the other where that gives the bits that quantizing anew
// would: scales of whole tensors and of square blocks belong to the same
// elements whichever way they lie, and codes are only moved.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "quantizer/all_gather.h"
#include "quantizer/dequantize.h"
#include "quantizer/layout_kernels.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {
namespace {

bool HasOneScale(Scaling scaling) {
  return scaling == Scaling::kDelayed || scaling == Scaling::kCurrent;
}

// Why the other copy cannot be made from `data`, or "".
std::string Obstacle(const QuantizedTensor& tensor, const QuantizedData& data) {
  if (tensor.scaling == Scaling::kHighPrecision ||
      HasOneScale(tensor.scaling)) {
    return "";
  }
  if (tensor.scaling == Scaling::kCustom) {
    return "only the quantizer that made its codes knows what they mean";
  }
  const BlockScales& scales = data.scales;
  if (data.hadamard) {
    return "its codes are those of a Hadamard transform along their rows";
  }
  if (tensor.scaling == Scaling::kRowwise) {
    return "each scale belongs to one row of codes";
  }
  if (scales.block_rows == scales.block_cols) return "";
  return absl::StrCat("each scale belongs to ", scales.block_rows, "x",
                      scales.block_cols, " codes, not to a square block");
}

// A policy that lays a tensor out as `tensor` is.
Policy LayoutPolicy(const QuantizedTensor& tensor) {
  Policy policy;
  policy.scaling = tensor.scaling;
  policy.format = tensor.format;
  policy.high_precision_dtype = tensor.high_precision_dtype;
  policy.block.block_shape = BlockShape::k128x128;
  policy.mxfp8.two_dimensional = true;
  policy.nvfp4.two_dimensional = true;
  return policy;
}

Allocator* AllocatorOf(const QuantizedTensor& tensor,
                       const QuantizedData& data) {
  for (const Buffer* buffer :
       {&data.codes, &data.scale_inv, &tensor.workspace}) {
    if (buffer->allocator() != nullptr) return buffer->allocator();
  }
  return HostAllocator();  // for no bytes at all
}

int CodeBits(const QuantizedTensor& tensor) {
  if (tensor.scaling == Scaling::kHighPrecision) {
    return static_cast<int>(8 * SizeOf(tensor.high_precision_dtype));
  }
  return tensor.format == Format::kE2M1 ? 4 : 8;
}

// The copy that is missing, from the one that is there.
absl::StatusOr<QuantizedData> MakeOther(const QuantizedTensor& tensor,
                                        bool column_wise, Stream stream) {
  const QuantizedData& from =
      column_wise ? *tensor.row_wise : *tensor.column_wise;
  SK_ASSIGN_OR_RETURN(QuantizedData to,
                      AllocateUse(tensor, LayoutPolicy(tensor), column_wise,
                                  AllocatorOf(tensor, from), stream));
  const int64_t rows = column_wise ? tensor.rows : tensor.cols;
  const int64_t cols = column_wise ? tensor.cols : tensor.rows;
  SK_RETURN_IF_ERROR(kernels::TransposeCodes(from.codes.data(), rows, cols,
                                             CodeBits(tensor), to.codes.data(),
                                             tensor.device, stream));
  if (tensor.scaling == Scaling::kHighPrecision) return to;
  if (HasOneScale(tensor.scaling)) {
    SK_RETURN_IF_ERROR(Copy(tensor.device, to.scale_inv.data(),
                            from.scale_inv.data(), sizeof(float), stream));
    return to;
  }
  SK_RETURN_IF_ERROR(kernels::TransposeScales(
      from.scales, to.scales, /*to_code_rows=*/cols, tensor.device, stream));
  if (to.tensor_scale_inv.size() != 0) {
    SK_RETURN_IF_ERROR(Copy(tensor.device, to.tensor_scale_inv.data(),
                            from.tensor_scale_inv.data(), sizeof(float),
                            stream));
  }
  return to;
}

}  // namespace

absl::Status QuantizedTensor::UpdateUsage(const Usages& usages, Stream stream,
                                          Unwanted unwanted) {
  SK_RETURN_IF_ERROR(ValidateTensor(*this, "UpdateUsage"));
  if (!usages.any()) {
    return absl::InvalidArgumentError(
        "UpdateUsage: got none, want row_wise, column_wise or both");
  }
  const bool wants_columns =
      usages.column_wise || usages.all_gather_column_wise;
  if (usages.all_gather_column_wise) {
    SK_RETURN_IF_ERROR(CheckCanGather(*this, "UpdateUsage"));
  }
  for (const bool column : {false, true}) {
    std::optional<QuantizedData>& wanted = column ? column_wise : row_wise;
    if (!(column ? wants_columns : usages.row_wise) || wanted) continue;
    const QuantizedData& other = column ? *row_wise : *column_wise;
    if (const std::string why = Obstacle(*this, other); !why.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("UpdateUsage: ", Describe(*this), " cannot give ",
                       column ? "column_wise" : "row_wise", " data: ", why,
                       "; quantize again from the high-precision tensor"));
    }
    SK_ASSIGN_OR_RETURN(wanted, MakeOther(*this, column, stream));
  }
  all_gather_column_wise |= usages.all_gather_column_wise;
  if (unwanted == Unwanted::kKeep) return absl::OkStatus();
  if (!usages.row_wise) row_wise.reset();
  if (!wants_columns) column_wise.reset();
  all_gather_column_wise = usages.all_gather_column_wise;
  return absl::OkStatus();
}

}  // namespace scalekeeper
