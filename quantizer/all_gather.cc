#include "quantizer/all_gather.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "numerics/bits.h"
#include "quantizer/dequantize.h"
#include "quantizer/layout_kernels.h"
#include "quantizer/quantize_workspace.h"

namespace scalekeeper {
namespace {

size_t AlignedUp(size_t bytes) {
  return (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment *
         Allocator::kAlignment;
}

// What lies in a gathered tensor's workspace, behind the words with which it
// could be quantized: the ranks' scales, then their codes.
struct Staging {
  static size_t OwnBytes(const QuantizedTensor& local, int ranks) {
    return QuantizeWorkspace::Bytes(local.scaling, local.rows * ranks,
                                    local.cols);
  }
  static size_t ScalesAt(const QuantizedTensor& local, int ranks) {
    return AlignedUp(OwnBytes(local, ranks));
  }
  static size_t CodesAt(const QuantizedTensor& local, int ranks) {
    return ScalesAt(local, ranks) +
           AlignedUp(static_cast<size_t>(ranks) * sizeof(float));
  }
  static size_t Bytes(const QuantizedTensor& local, int ranks) {
    return CodesAt(local, ranks) +
           static_cast<size_t>(local.rows * local.cols * ranks);
  }
};

absl::Status CheckGathered(const QuantizedTensor& local, int ranks,
                           const QuantizedTensor* gathered) {
  if (gathered == nullptr) {
    return absl::InvalidArgumentError(
        "gathered: got a null pointer, want a tensor made by MakeGathered");
  }
  SK_RETURN_IF_ERROR(ValidateTensor(*gathered, "gathered"));
  if (gathered->scaling == local.scaling && gathered->format == local.format &&
      gathered->rows == local.rows * ranks && gathered->cols == local.cols &&
      gathered->device == local.device && gathered->column_wise &&
      gathered->workspace.size() >= Staging::Bytes(local, ranks)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "gathered: got ", Describe(*gathered), ", want ", local.rows * ranks, "x",
      local.cols, " column-wise for ", ranks, " ranks of ", Describe(local),
      ": make it with MakeGathered"));
}

// The host can look.
absl::Status CheckScalesAgree(const float* scale_inv, int ranks,
                              const QuantizedTensor& local) {
  for (int rank = 1; rank < ranks; ++rank) {
    if (BitsFromFloat(scale_inv[rank]) == BitsFromFloat(scale_inv[0])) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "AllGatherColumnWise: scale_inv of ", Describe(local), " is ",
        scale_inv[rank], " on rank ", rank, ", ", scale_inv[0],
        " on rank 0; one tensor has one scale: reduce delayed amaxes over "
        "these ranks (amax_reduction), or give current scaling an amax_group"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCanGather(const QuantizedTensor& tensor,
                            absl::string_view what) {
  if (tensor.scaling == Scaling::kDelayed ||
      tensor.scaling == Scaling::kCurrent) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": all_gather_column_wise with scaling ", Name(tensor.scaling),
      ", want delayed or current: one scale for all ranks"));
}

absl::StatusOr<QuantizedTensor> MakeGathered(const QuantizedTensor& local,
                                             int ranks, Allocator* allocator,
                                             Stream stream) {
  SK_RETURN_IF_ERROR(ValidateTensor(local, "local"));
  SK_RETURN_IF_ERROR(CheckCanGather(local, "MakeGathered"));
  if (ranks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: got ", ranks, ", want 1 or more"));
  }
  if (allocator == nullptr) {
    SK_ASSIGN_OR_RETURN(allocator, DefaultAllocator(local.device));
  }
  Policy policy;
  policy.scaling = local.scaling;
  policy.format = local.format;
  return AllocateQuantized(
      local.rows * ranks, local.cols, policy,
      {/*row_wise=*/false, /*column_wise=*/true}, local.device, allocator,
      stream, Staging::Bytes(local, ranks) - Staging::OwnBytes(local, ranks));
}

absl::Status AllGatherColumnWise(const QuantizedTensor& local,
                                 Communicator* communicator,
                                 QuantizedTensor* gathered, Stream stream) {
  if (communicator == nullptr) {
    return absl::InvalidArgumentError("communicator: got a null pointer");
  }
  SK_RETURN_IF_ERROR(ValidateTensor(local, "local"));
  SK_RETURN_IF_ERROR(CheckCanGather(local, "AllGatherColumnWise"));
  if (!local.column_wise || !local.all_gather_column_wise) {
    return absl::FailedPreconditionError(absl::StrCat(
        "local: got ", Describe(local), " with usages ",
        local.usages().ToString(),
        ", want all_gather_column_wise (Quantizer::SetUsage or UpdateUsage)"));
  }
  const int ranks = communicator->size();
  SK_RETURN_IF_ERROR(CheckGathered(local, ranks, gathered));
  uint8_t* const workspace = gathered->workspace.as<uint8_t>();
  kernels::GatheredBlocks blocks;
  uint8_t* const codes = workspace + Staging::CodesAt(local, ranks);
  float* const scale_inv =
      reinterpret_cast<float*>(workspace + Staging::ScalesAt(local, ranks));
  blocks.codes = codes;
  blocks.scale_inv = scale_inv;
  blocks.ranks = ranks;
  blocks.lines = local.cols;
  blocks.length = local.rows;
  SK_RETURN_IF_ERROR(communicator->AllGather(
      local.column_wise->scale_inv.data(), scale_inv, sizeof(float), stream));
  SK_RETURN_IF_ERROR(
      communicator->AllGather(local.column_wise->codes.data(), codes,
                              local.column_wise->codes.size(), stream));
  if (local.device.kind == DeviceKind::kHost) {
    SK_RETURN_IF_ERROR(CheckScalesAgree(scale_inv, ranks, local));
  }
  return kernels::Interleave(blocks, gathered->column_wise->codes.as<uint8_t>(),
                             gathered->column_wise->scale_inv.as<float>(),
                             local.device, stream);
}

}  // namespace scalekeeper
