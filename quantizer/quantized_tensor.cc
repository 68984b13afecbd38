#include "quantizer/quantized_tensor.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "numerics/bits.h"
#include "numerics/hadamard.h"
#include "quantizer/quantize_workspace.h"
#include "quantizer/scale_grid.h"

namespace scalekeeper {
namespace {

// More than any memory holds; keeps products of extents from overflowing.
constexpr int64_t kMaxElements = int64_t{1} << 48;

// Read by queued copies: lives as long as the process.
constexpr float kOne = 1.0f;

// The bytes of scale 1: 2^(127 - 127) and E4M3's 1.
constexpr unsigned char kE8M0One = 0x7F;
constexpr unsigned char kE4M3One = 0x38;

// A tensor that is used before it was quantized has no sentinel scale. The
// padding of tiles is 0, as GPUs want it, and so are tiled scales at first.
absl::Status InitializeScales(Device device, QuantizedData* data,
                              Stream stream) {
  SK_RETURN_IF_ERROR(Copy(device, data->tensor_scale_inv.data(), &kOne,
                          data->tensor_scale_inv.size(), stream));
  void* scales = data->scale_inv.data();
  const size_t bytes = data->scale_inv.size();
  if (data->scales.layout == ScaleLayout::kTiled) {
    return FillBytes(device, scales, 0, bytes, stream);
  }
  switch (data->scales.type) {
    case ScaleType::kFloat:
      if (bytes == sizeof(kOne)) {
        return Copy(device, scales, &kOne, sizeof(kOne), stream);
      }
      return FillWords(device, scales, BitsFromFloat(kOne),
                       bytes / sizeof(kOne), stream);
    case ScaleType::kE8M0:
      return FillBytes(device, scales, kE8M0One, bytes, stream);
    case ScaleType::kE4M3:
      break;
  }
  return FillBytes(device, scales, kE4M3One, bytes, stream);
}

bool HasTransform(const Policy& policy) {
  return policy.scaling == Scaling::kNvfp4 && policy.nvfp4.random_hadamard;
}

// The memory of one use, in which nothing is written.
absl::StatusOr<QuantizedData> AllocateMemory(const QuantizedTensor& tensor,
                                             const Policy& policy,
                                             bool column_wise,
                                             ScalePlacement placement,
                                             Allocator* allocator) {
  QuantizedData data;
  SK_ASSIGN_OR_RETURN(
      data.codes, Buffer::Allocate(allocator, CodeBytes(tensor, column_wise)));
  if (tensor.scaling == Scaling::kHighPrecision) return data;
  const int64_t code_rows = column_wise ? tensor.cols : tensor.rows;
  const int64_t code_cols = column_wise ? tensor.rows : tensor.cols;
  data.scales = ScaleGrid(policy, code_rows, code_cols, placement);
  SK_ASSIGN_OR_RETURN(
      data.scale_inv,
      Buffer::Allocate(allocator, ScaleBytes(data.scales, code_rows)));
  data.scales.data = data.scale_inv.data();
  if (tensor.scaling == Scaling::kNvfp4) {
    SK_ASSIGN_OR_RETURN(data.tensor_scale_inv,
                        Buffer::Allocate(allocator, sizeof(float)));
    data.scales.tensor_scale_inv = data.tensor_scale_inv.as<float>();
    data.hadamard = column_wise && HasTransform(policy);
  }
  return data;
}

absl::Status CheckAllocation(int64_t rows, int64_t cols, const Policy& policy,
                             Usages usages) {
  if (rows < 0 || cols < 0 || (cols > 0 && rows > kMaxElements / cols)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: got ", rows, "x", cols,
                     ", want extents >= 0 and at most 2^48 elements"));
  }
  if (!usages.row_wise && !usages.column_wise) {
    return absl::InvalidArgumentError(
        "usages: got none, want row_wise, column_wise or both");
  }
  if (HasTransform(policy) && usages.column_wise && rows % kHadamardSize != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows: got ", rows, " of a ", rows, "x", cols,
        " tensor, want a multiple of ", kHadamardSize,
        ": random_hadamard transforms the column-wise copy along them"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Usages::ToString() const {
  std::vector<absl::string_view> on;
  if (row_wise) on.push_back("row_wise");
  if (column_wise) on.push_back("column_wise");
  if (all_gather_column_wise) on.push_back("all_gather_column_wise");
  return on.empty() ? "none" : absl::StrJoin(on, ", ");
}

size_t QuantizedTensor::bytes() const {
  size_t bytes = workspace.size();
  for (const auto* use : {&row_wise, &column_wise}) {
    if (!*use) continue;
    bytes += (*use)->codes.size() + (*use)->scale_inv.size() +
             (*use)->tensor_scale_inv.size();
  }
  return bytes;
}

size_t CodeBytes(const QuantizedTensor& tensor, bool column_wise) {
  const int64_t rows = column_wise ? tensor.cols : tensor.rows;
  const int64_t cols = column_wise ? tensor.rows : tensor.cols;
  if (tensor.scaling == Scaling::kHighPrecision) {
    return static_cast<size_t>(rows * cols) *
           SizeOf(tensor.high_precision_dtype);
  }
  return static_cast<size_t>(rows * CodeRowBytes(tensor.format, cols));
}

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

absl::StatusOr<QuantizedData> AllocateUse(const QuantizedTensor& tensor,
                                          const Policy& policy,
                                          bool column_wise,
                                          Allocator* allocator, Stream stream) {
  SK_ASSIGN_OR_RETURN(const ScalePlacement placement,
                      ScalePlacementOf(tensor.device));
  SK_ASSIGN_OR_RETURN(
      QuantizedData data,
      AllocateMemory(tensor, policy, column_wise, placement, allocator));
  SK_RETURN_IF_ERROR(InitializeScales(tensor.device, &data, stream));
  return data;
}

absl::StatusOr<QuantizedTensor> AllocateQuantized(
    int64_t rows, int64_t cols, const Policy& policy, Usages usages,
    Device device, Allocator* allocator, Stream stream, size_t more_workspace) {
  SK_RETURN_IF_ERROR(CheckAllocation(rows, cols, policy, usages));
  QuantizedTensor tensor;
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.scaling = policy.scaling;
  tensor.format = policy.format;
  tensor.high_precision_dtype = policy.high_precision_dtype;
  tensor.device = device;
  SK_ASSIGN_OR_RETURN(const ScalePlacement placement, ScalePlacementOf(device));
  for (const bool column_wise : {false, true}) {
    if (!(column_wise ? usages.column_wise : usages.row_wise)) continue;
    auto& use = column_wise ? tensor.column_wise : tensor.row_wise;
    SK_ASSIGN_OR_RETURN(
        use, AllocateMemory(tensor, policy, column_wise, placement, allocator));
  }
  const size_t words = QuantizeWorkspace::Bytes(policy.scaling, rows, cols);
  SK_ASSIGN_OR_RETURN(tensor.workspace,
                      Buffer::Allocate(allocator, words + more_workspace));
  // No memory that a queued write needs is given back for want of other memory.
  for (auto* use : {&tensor.row_wise, &tensor.column_wise}) {
    if (*use) SK_RETURN_IF_ERROR(InitializeScales(device, &**use, stream));
  }
  SK_RETURN_IF_ERROR(
      FillBytes(device, tensor.workspace.data(), 0, words, stream));
  return tensor;
}

bool IsLaidOutFor(const QuantizedTensor& tensor, const Policy& policy) {
  if (tensor.scaling != policy.scaling) return false;
  if (policy.scaling == Scaling::kHighPrecision) {
    return tensor.high_precision_dtype == policy.high_precision_dtype;
  }
  if (tensor.format != policy.format ||
      tensor.workspace.size() <
          QuantizeWorkspace::Bytes(policy.scaling, tensor.rows, tensor.cols)) {
    return false;
  }
  const auto fits = [&](const QuantizedData& data, bool column_wise) {
    const BlockScales want = ScaleGrid(
        policy, column_wise ? tensor.cols : tensor.rows,
        column_wise ? tensor.rows : tensor.cols, ScalePlacement::kCompact);
    return data.scales.block_rows == want.block_rows &&
           data.scales.block_cols == want.block_cols &&
           data.hadamard == (column_wise && HasTransform(policy));
  };
  return (!tensor.row_wise || fits(*tensor.row_wise, false)) &&
         (!tensor.column_wise || fits(*tensor.column_wise, true));
}

std::string Describe(const QuantizedTensor& tensor) {
  const absl::string_view element = tensor.scaling == Scaling::kHighPrecision
                                        ? Name(tensor.high_precision_dtype)
                                        : Name(tensor.format);
  std::string blocks;
  if (tensor.scaling == Scaling::kBlock || tensor.scaling == Scaling::kMxfp8 ||
      tensor.scaling == Scaling::kNvfp4) {
    for (const auto* use : {&tensor.column_wise, &tensor.row_wise}) {
      if (!*use) continue;
      blocks = absl::StrCat(" ", (*use)->scales.block_rows, "x",
                            (*use)->scales.block_cols);
    }
  }
  return absl::StrCat(
      Name(tensor.scaling), blocks, " ", element, " ", tensor.rows, "x",
      tensor.cols, tensor.row_wise ? " row-wise" : "",
      tensor.column_wise ? " column-wise" : "", " on ", Name(tensor.device));
}

}  // namespace scalekeeper
