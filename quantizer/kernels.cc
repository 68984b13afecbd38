// The one switch on the device kind of this package.
#include "quantizer/kernels.h"

#include "amax/slot_view.h"
#include "base/status_macros.h"
#include "quantizer/kernels_cuda.h"
#include "quantizer/kernels_host.h"

namespace scalekeeper::kernels {
namespace {

absl::Status CheckFormat(Format format) {
  if (format != Format::kE2M1) return absl::OkStatus();
  return absl::UnimplementedError(
      "format: got E2M1, want E4M3 or E5M2: E2M1 has no per-tensor kernels");
}

}  // namespace

absl::Status Amax(const ConstTensorView& x, uint32_t* amax, const RunIf& run,
                  Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::Amax(x, amax, run, stream);
  }
  if (host::Runs(run)) Observe({amax}, host::Amax(x));
  return absl::OkStatus();
}

absl::Status TensorAmax(const ConstTensorView& x, AmaxScratch* scratch,
                        const RunIf& run, Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::TensorAmax(x, scratch, run, stream);
  }
  if (host::Runs(run)) scratch->amax = host::Amax(x);
  return absl::OkStatus();
}

absl::Status Cast(const ConstTensorView& x, const CastScale& scale,
                  Format format, const CastOutput& out, const RunIf& run,
                  Stream stream) {
  SK_RETURN_IF_ERROR(CheckFormat(format));
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::Cast(x, scale, format, out, run, stream);
  }
  if (!host::Runs(run)) return absl::OkStatus();
  float factor = 0;
  if (scale.scratch != nullptr && NeedsTensorAmax(scale)) {
    scale.scratch->amax = host::Amax(x);
    factor = TensorScale(scale, scale.scratch->amax);
  } else {
    factor = ResolveScale(scale);
  }
  WriteScaleInverse(scale, factor);
  // Several threads may raise the caller's word at once.
  uint32_t amax = 0;
  CastOutput local = out;
  if (out.amax != nullptr) local.amax = &amax;
  host::Cast(x, factor, format, local);
  if (out.amax != nullptr) Observe({out.amax}, amax);
  if (out.counters != nullptr) {
    const Statistics counts =
        host::MeasureCast(x, factor, ScaleInverse(factor), format);
    host::AddTo(out.counters, {static_cast<uint64_t>(counts.nonzero),
                               static_cast<uint64_t>(counts.underflow),
                               static_cast<uint64_t>(counts.saturation),
                               static_cast<uint64_t>(counts.non_finite)});
  }
  return absl::OkStatus();
}

absl::Status Decode(const ConstTensorView& codes, Format format,
                    const float* scale_inv, const TensorView& out,
                    Stream stream) {
  SK_RETURN_IF_ERROR(CheckFormat(format));
  if (out.device.kind == DeviceKind::kCuda) {
    return cuda::Decode(codes, format, scale_inv, out, stream);
  }
  host::Decode(codes, format, *scale_inv, out);
  return absl::OkStatus();
}

absl::Status Convert(const ConstTensorView& x, const TensorView& out,
                     const RunIf& run, Stream stream) {
  if (out.device.kind == DeviceKind::kCuda) {
    return cuda::Convert(x, out, run, stream);
  }
  if (host::Runs(run)) host::Convert(x, out);
  return absl::OkStatus();
}

absl::StatusOr<Statistics> MeasureCast(const ConstTensorView& x,
                                       const CastScale& scale, Format format,
                                       Stream stream) {
  SK_RETURN_IF_ERROR(CheckFormat(format));
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::MeasureCast(x, scale, format, stream);
  }
  const float factor = ResolveScale(scale);
  return host::MeasureCast(x, factor, ScaleInverse(factor), format);
}

absl::StatusOr<Statistics> MeasureConvert(const ConstTensorView& x, DType dtype,
                                          Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::MeasureConvert(x, dtype, stream);
  }
  return host::MeasureConvert(x, dtype);
}

}  // namespace scalekeeper::kernels
