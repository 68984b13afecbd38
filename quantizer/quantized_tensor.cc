#include "quantizer/quantized_tensor.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "quantizer/kernels.h"

namespace scalekeeper {
namespace {

// More than any memory holds; keeps products of extents from overflowing.
constexpr int64_t kMaxElements = int64_t{1} << 48;

// Read by queued copies: lives as long as the process.
constexpr float kOne = 1.0f;

// Codes, and the scale_inv where there is one, of one use.
absl::StatusOr<QuantizedData> AllocateUse(const QuantizedTensor& tensor,
                                          Allocator* allocator, Stream stream) {
  QuantizedData data;
  const size_t elements = static_cast<size_t>(tensor.rows * tensor.cols);
  SK_ASSIGN_OR_RETURN(
      data.codes,
      Buffer::Allocate(allocator, elements * SizeOf(tensor.code_dtype())));
  if (tensor.scaling == Scaling::kHighPrecision) return data;
  SK_ASSIGN_OR_RETURN(data.scale_inv,
                      Buffer::Allocate(allocator, sizeof(float)));
  data.scales.data = data.scale_inv.data();
  data.scales.rows = 1;
  data.scales.cols = 1;
  data.scales.block_rows = std::max<int64_t>(tensor.rows, 1);
  data.scales.block_cols = std::max<int64_t>(tensor.cols, 1);
  // A tensor that is used before it was quantized has no sentinel scale.
  SK_RETURN_IF_ERROR(
      Copy(tensor.device, data.scale_inv.data(), &kOne, sizeof(kOne), stream));
  return data;
}

}  // namespace

ConstTensorView RowWiseCodes(const QuantizedTensor& tensor) {
  return ConstTensorView(BasicTensorView<const void*>::Contiguous(
      tensor.row_wise->codes.data(), tensor.code_dtype(), tensor.rows,
      tensor.cols, tensor.device));
}

ConstTensorView ColumnWiseCodes(const QuantizedTensor& tensor) {
  return ConstTensorView(
      BasicTensorView<const void*>::Contiguous(tensor.column_wise->codes.data(),
                                               tensor.code_dtype(), tensor.cols,
                                               tensor.rows, tensor.device)
          .Transposed());
}

absl::StatusOr<QuantizedTensor> AllocatePerTensor(int64_t rows, int64_t cols,
                                                  const Policy& policy,
                                                  Usages usages, Device device,
                                                  Allocator* allocator,
                                                  Stream stream) {
  if (rows < 0 || cols < 0 || (cols > 0 && rows > kMaxElements / cols)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: got ", rows, "x", cols,
                     ", want extents >= 0 and at most 2^48 elements"));
  }
  if (!usages.row_wise && !usages.column_wise) {
    return absl::InvalidArgumentError(
        "usages: got none, want row_wise, column_wise or both");
  }
  QuantizedTensor tensor;
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.scaling = policy.scaling;
  tensor.format = policy.format;
  tensor.high_precision_dtype = policy.high_precision_dtype;
  tensor.device = device;
  if (usages.row_wise) {
    SK_ASSIGN_OR_RETURN(tensor.row_wise,
                        AllocateUse(tensor, allocator, stream));
  }
  if (usages.column_wise) {
    SK_ASSIGN_OR_RETURN(tensor.column_wise,
                        AllocateUse(tensor, allocator, stream));
  }
  if (policy.scaling != Scaling::kHighPrecision) {
    SK_ASSIGN_OR_RETURN(
        tensor.workspace,
        Buffer::Allocate(allocator, sizeof(kernels::AmaxScratch)));
    SK_RETURN_IF_ERROR(FillBytes(device, tensor.workspace.data(), 0,
                                 tensor.workspace.size(), stream));
  }
  return tensor;
}

std::string Describe(const QuantizedTensor& tensor) {
  const absl::string_view element = tensor.scaling == Scaling::kHighPrecision
                                        ? Name(tensor.high_precision_dtype)
                                        : Name(tensor.format);
  return absl::StrCat(Name(tensor.scaling), " ", element, " ", tensor.rows, "x",
                      tensor.cols, tensor.row_wise ? " row-wise" : "",
                      tensor.column_wise ? " column-wise" : "", " on ",
                      Name(tensor.device));
}

}  // namespace scalekeeper
