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
//       kernels::Cast(x, GivenScale(&scale), Format::kE4M3, out, {}, stream));
#ifndef SCALEKEEPER_QUANTIZER_KERNELS_H_
#define SCALEKEEPER_QUANTIZER_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/device.h"
#include "base/tensor_view.h"
#include "numerics/format.h"
#include "quantizer/cast_scale.h"
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

// scratch->amax = bits of max |x| (set, not raised; 0 for zero elements).
absl::Status TensorAmax(const ConstTensorView& x, AmaxScratch* scratch,
                        const RunIf& run, Stream stream);

// Counts of the elements that casts met (numerics.md section 7), added to.
struct CastCounters {
  uint64_t nonzero = 0;
  uint64_t underflow = 0;
  uint64_t saturation = 0;
  uint64_t non_finite = 0;
};

// Null pointers are left out.
struct CastOutput {
  uint8_t* row_wise = nullptr;     // R x C codes, row-major
  uint8_t* column_wise = nullptr;  // C x R codes, row-major
  uint32_t* amax = nullptr;        // raised to max |x|
  CastCounters* counters = nullptr;
};

// code = rne(float32(x) * scale), saturating. E4M3 and E5M2. Writes 1 / scale
// where `scale` asks for it, also for zero elements. With scale.scratch, takes
// the amax of x first where the scale is made from it.
absl::Status Cast(const ConstTensorView& x, const CastScale& scale,
                  Format format, const CastOutput& out, const RunIf& run,
                  Stream stream);

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
                                       const CastScale& scale, Format format,
                                       Stream stream);
absl::StatusOr<Statistics> MeasureConvert(const ConstTensorView& x, DType dtype,
                                          Stream stream);

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_KERNELS_H_
