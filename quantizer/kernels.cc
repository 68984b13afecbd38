// The one switch on the device kind of this package.
#include "quantizer/kernels.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "numerics/amax.h"
#include "quantizer/kernels_host.h"

namespace scalekeeper::kernels {
namespace {

bool RunsOnHost(const RunIf& run) {
  return (run.unless == nullptr || *run.unless == 0) &&
         (run.only_if == nullptr || *run.only_if != 0);
}

// Calls `host()` for a host device; other devices have no kernels here.
template <typename HostKernel>
absl::Status Dispatch(const Device& device, HostKernel host) {
  switch (device.kind) {
    case DeviceKind::kHost:
      host();
      return absl::OkStatus();
    case DeviceKind::kCuda:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "quantizer kernels: this build has none for device ", Name(device)));
}

// As Dispatch, when `run` says so.
template <typename HostKernel>
absl::Status DispatchIf(const Device& device, const RunIf& run,
                        HostKernel host) {
  return Dispatch(device, [&] {
    if (RunsOnHost(run)) host();
  });
}

void RaiseWord(uint32_t* word, uint32_t bits) {
  uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (seen < bits &&
         !__atomic_compare_exchange_n(word, &seen, bits, /*weak=*/true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

void WriteScale(float scale, float scale_inv, const ScaleOutput& out) {
  if (out.scale != nullptr) *out.scale = scale;
  if (out.row_wise_scale_inv != nullptr) *out.row_wise_scale_inv = scale_inv;
  if (out.column_wise_scale_inv != nullptr) {
    *out.column_wise_scale_inv = scale_inv;
  }
}

absl::Status CheckFormat(Format format) {
  if (format != Format::kE2M1) return absl::OkStatus();
  return absl::UnimplementedError(
      "format: got E2M1, want E4M3 or E5M2: E2M1 has no per-tensor kernels");
}

}  // namespace

absl::Status Amax(const ConstTensorView& x, uint32_t* amax, const RunIf& run,
                  Stream) {
  return DispatchIf(x.device, run, [&] { RaiseWord(amax, host::Amax(x)); });
}

absl::Status SetWord(const Device& device, uint32_t* word, uint32_t value,
                     const RunIf& run, Stream) {
  return DispatchIf(device, run, [&] { *word = value; });
}

absl::Status DelayedScale(const Device& device, const DelayedScaleInput& input,
                          const ScaleOutput& out, const RunIf& run, Stream) {
  return DispatchIf(device, run, [&] {
    float scale = *input.scale;
    float scale_inv = *input.scale_inv;
    if (input.measure != nullptr && *input.measure != 0) {
      const uint32_t amax = *input.tensor_amax;
      if (amax != 0 && !IsNonFiniteAmax(amax)) {
        scale =
            ScaleFromAmax(FloatFromBits(amax), input.format_max, input.margin);
        scale_inv = ScaleInverse(scale);
      }
    }
    WriteScale(scale, scale_inv, out);
  });
}

absl::Status CurrentScale(const Device& device, const uint32_t* tensor_amax,
                          const CurrentScaleOptions& options,
                          const ScaleOutput& out, const RunIf& run, Stream) {
  return DispatchIf(device, run, [&] {
    const float scale = CurrentScaleFromAmax(*tensor_amax, options);
    WriteScale(scale, ScaleInverse(scale), out);
  });
}

absl::Status Cast(const ConstTensorView& x, const float* scale, Format format,
                  const CastOutput& out, const RunIf& run, Stream) {
  SK_RETURN_IF_ERROR(CheckFormat(format));
  return DispatchIf(x.device, run, [&] {
    // Several threads may raise the caller's word at once.
    uint32_t amax = 0;
    CastOutput local = out;
    if (out.amax != nullptr) local.amax = &amax;
    host::Cast(x, *scale, format, local);
    if (out.amax != nullptr) RaiseWord(out.amax, amax);
  });
}

absl::Status Decode(const ConstTensorView& codes, Format format,
                    const float* scale_inv, const TensorView& out, Stream) {
  SK_RETURN_IF_ERROR(CheckFormat(format));
  return Dispatch(out.device,
                  [&] { host::Decode(codes, format, *scale_inv, out); });
}

absl::Status Convert(const ConstTensorView& x, const TensorView& out,
                     const RunIf& run, Stream) {
  return DispatchIf(out.device, run, [&] { host::Convert(x, out); });
}

absl::StatusOr<Statistics> MeasureCast(const ConstTensorView& x,
                                       const float* scale,
                                       const float* scale_inv, Format format,
                                       Stream) {
  SK_RETURN_IF_ERROR(CheckFormat(format));
  Statistics result;
  absl::Status status = Dispatch(x.device, [&] {
    result = host::MeasureCast(x, *scale, *scale_inv, format);
  });
  if (!status.ok()) return status;
  return result;
}

absl::StatusOr<Statistics> MeasureConvert(const ConstTensorView& x, DType dtype,
                                          Stream) {
  Statistics result;
  absl::Status status =
      Dispatch(x.device, [&] { result = host::MeasureConvert(x, dtype); });
  if (!status.ok()) return status;
  return result;
}

}  // namespace scalekeeper::kernels
