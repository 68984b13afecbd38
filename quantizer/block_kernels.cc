// The switch on the device kind for the kernels of block scalings.
#include "quantizer/block_kernels.h"

#include "absl/strings/str_cat.h"
#include "amax/slot_view.h"
#include "base/status_macros.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/hadamard.h"
#include "quantizer/block_kernels_cuda.h"
#include "quantizer/block_kernels_host.h"
#include "quantizer/kernels_host.h"

namespace scalekeeper::kernels {
namespace {

absl::Status CheckHadamard(const BlockUse& use) {
  const BlockScales& scales = use.scales;
  if (use.codes == nullptr || !use.hadamard ||
      (scales.block_rows == 1 && scales.block_cols == kHadamardSize)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("hadamard: got blocks of ", scales.block_rows, " x ",
                   scales.block_cols, ", want 1 x ", kHadamardSize));
}

}  // namespace

absl::Status BlockCast(const ConstTensorView& x, const BlockCastSpec& spec,
                       const BlockCastOutput& out, const RunIf& run,
                       Stream stream) {
  SK_RETURN_IF_ERROR(CheckHadamard(out.row_wise));
  SK_RETURN_IF_ERROR(CheckHadamard(out.column_wise));
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::BlockCast(x, spec, out, run, stream);
  }
  if (!host::Runs(run)) return absl::OkStatus();
  // Several threads may raise the caller's words at once.
  uint32_t amax = 0;
  CastCounters counters;
  BlockCastOutput local = out;
  if (out.amax != nullptr) local.amax = &amax;
  if (out.counters != nullptr) local.counters = &counters;
  host::BlockCast(x, spec, local);
  if (out.amax != nullptr) Observe({out.amax}, amax);
  if (out.counters != nullptr) host::AddTo(out.counters, counters);
  return absl::OkStatus();
}

absl::Status RowwiseCast(const ConstTensorView& x, const BlockCastSpec& spec,
                         const BlockCastOutput& out, uint32_t* row_amax,
                         const RunIf& run, Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::RowwiseCast(x, spec, out, row_amax, run, stream);
  }
  SK_RETURN_IF_ERROR(LineAmaxes(x, row_amax, nullptr, run, stream));
  BlockCastOutput known = out;
  known.row_wise.line_amax = row_amax;
  return BlockCast(x, spec, known, run, stream);
}

absl::Status TensorAmaxes(const ConstTensorView& x, bool hadamard,
                          const TensorAmaxWords& words, const RunIf& run,
                          Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::TensorAmaxes(x, hadamard, words, run, stream);
  }
  if (!host::Runs(run)) return absl::OkStatus();
  if (words.row_wise != nullptr) *words.row_wise = host::Amax(x);
  if (words.column_wise == nullptr) return absl::OkStatus();
  if (!hadamard) {
    *words.column_wise =
        words.row_wise != nullptr ? *words.row_wise : host::Amax(x);
    return absl::OkStatus();
  }
  *words.column_wise = host::HadamardAmax(x);
  if (words.non_finite != nullptr && IsNonFiniteAmax(*words.column_wise)) {
    Observe({words.non_finite}, kFloatInfBits);
  }
  return absl::OkStatus();
}

absl::Status LineAmaxes(const ConstTensorView& x, uint32_t* row_amax,
                        uint32_t* col_amax, const RunIf& run, Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::LineAmaxes(x, row_amax, col_amax, run, stream);
  }
  if (host::Runs(run)) host::LineAmaxes(x, row_amax, col_amax);
  return absl::OkStatus();
}

absl::Status BlockDecode(const uint8_t* codes, Format format,
                         const BlockScales& scales, bool hadamard,
                         const TensorView& out, Stream stream) {
  if (out.device.kind == DeviceKind::kCuda) {
    return cuda::BlockDecode(codes, format, scales, hadamard, out, stream);
  }
  host::BlockDecode(codes, format, scales, hadamard, out);
  return absl::OkStatus();
}

}  // namespace scalekeeper::kernels
