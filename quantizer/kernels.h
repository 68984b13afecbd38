// The kernels that turn values into codes: functions over the caller's buffers.
//
// No state, no allocation, nothing retained. Pointers are device memory of the
// device that the view (or the `device` argument) names, and the work is queued
// on `stream`; on the host it has finished on return. Arguments were validated
// by the caller (quantizer/quantizer.h): a view is not null unless empty, code
// buffers are large enough. Any thread; outputs of concurrent calls must not
// overlap, except amax words, which are raised atomically.
//
// Each returns Unimplemented for a device that this build has no kernels for.
//
// Example (host):
//   float scale = 448.0f;
//   kernels::CastOutput out;
//   out.row_wise = codes;      // R x C
//   out.column_wise = turned;  // C x R
//   out.amax = &amax_bits;     // raised to the tensor's amax
//   SK_RETURN_IF_ERROR(
//       kernels::Cast(x, &scale, Format::kE4M3, out, {}, stream));
#ifndef SCALEKEEPER_QUANTIZER_KERNELS_H_
#define SCALEKEEPER_QUANTIZER_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/device.h"
#include "base/tensor_view.h"
#include "numerics/format.h"
#include "numerics/scale.h"
#include "quantizer/statistics.h"

namespace scalekeeper::kernels {

// Device words that decide, on the device, whether a kernel does anything.
struct RunIf {
  const uint32_t* unless = nullptr;   // runs when null or zero (noop_flag)
  const uint32_t* only_if = nullptr;  // runs when null or non-zero
};

// Raises *amax to the bits of max |x|.
absl::Status Amax(const ConstTensorView& x, uint32_t* amax, const RunIf& run,
                  Stream stream);

// *word = value.
absl::Status SetWord(const Device& device, uint32_t* word, uint32_t value,
                     const RunIf& run, Stream stream);

// Where a scale kernel leaves its result; null pointers are left out.
struct ScaleOutput {
  float* scale = nullptr;
  float* row_wise_scale_inv = nullptr;
  float* column_wise_scale_inv = nullptr;
};

// A delayed slot's words (amax/slot_view.h).
struct DelayedScaleInput {
  const float* scale = nullptr;
  const float* scale_inv = nullptr;
  const uint32_t* measure = nullptr;
  // The tensor's own amax, used only while *measure is not zero.
  const uint32_t* tensor_amax = nullptr;
  float format_max = 448.0f;
  int margin = 0;
};

// The slot's scale; while *measure is set and the tensor's amax is finite and
// not 0, ScaleFromAmax of that (numerics.md section 3).
absl::Status DelayedScale(const Device& device, const DelayedScaleInput& input,
                          const ScaleOutput& out, const RunIf& run,
                          Stream stream);

// Current scaling from the tensor's own amax (numerics.md section 4).
absl::Status CurrentScale(const Device& device, const uint32_t* tensor_amax,
                          const CurrentScaleOptions& options,
                          const ScaleOutput& out, const RunIf& run,
                          Stream stream);

// Null pointers are left out.
struct CastOutput {
  uint8_t* row_wise = nullptr;     // R x C codes, row-major
  uint8_t* column_wise = nullptr;  // C x R codes, row-major
  uint32_t* amax = nullptr;        // raised to max |x|
};

// code = rne(float32(x) * *scale), saturating. E4M3 and E5M2.
absl::Status Cast(const ConstTensorView& x, const float* scale, Format format,
                  const CastOutput& out, const RunIf& run, Stream stream);

// out = decode(code) * *scale_inv, a float32 product rounded to out's dtype.
// `codes` is a view of uint8 codes with out's shape.
absl::Status Decode(const ConstTensorView& codes, Format format,
                    const float* scale_inv, const TensorView& out,
                    Stream stream);

// out = x, rounded to out's dtype; any strides on both sides.
absl::Status Convert(const ConstTensorView& x, const TensorView& out,
                     const RunIf& run, Stream stream);

// The counts and sums of Statistics for a cast with this scale, or for storing
// x in `dtype`. Synchronizes.
absl::StatusOr<Statistics> MeasureCast(const ConstTensorView& x,
                                       const float* scale,
                                       const float* scale_inv, Format format,
                                       Stream stream);
absl::StatusOr<Statistics> MeasureConvert(const ConstTensorView& x, DType dtype,
                                          Stream stream);

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_KERNELS_H_
