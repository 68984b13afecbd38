// The host kernels behind quantizer/kernels.h: same contracts, no Status,
// finished on return. Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_KERNELS_HOST_H_
#define SCALEKEEPER_QUANTIZER_KERNELS_HOST_H_

#include <cstdint>

#include "base/tensor_view.h"
#include "numerics/format.h"
#include "quantizer/kernels.h"
#include "quantizer/statistics.h"

namespace scalekeeper::kernels::host {

inline bool Runs(const RunIf& run) {
  return (run.unless == nullptr || *run.unless == 0) &&
         (run.only_if == nullptr || *run.only_if != 0);
}

// Atomic in each counter.
inline void AddTo(CastCounters* counters, const CastCounters& counts) {
  const auto add = [](uint64_t* counter, uint64_t count) {
    __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
  };
  add(&counters->nonzero, counts.nonzero);
  add(&counters->underflow, counts.underflow);
  add(&counters->saturation, counts.saturation);
  add(&counters->non_finite, counts.non_finite);
}

// Bits of max |x|.
uint32_t Amax(const ConstTensorView& x);

void Cast(const ConstTensorView& x, float scale, Format format,
          const CastOutput& out);

void Decode(const ConstTensorView& codes, Format format, float scale_inv,
            const TensorView& out);

void Convert(const ConstTensorView& x, const TensorView& out);

Statistics MeasureCast(const ConstTensorView& x, float scale, float scale_inv,
                       Format format);
Statistics MeasureConvert(const ConstTensorView& x, DType dtype);

}  // namespace scalekeeper::kernels::host

#endif  // SCALEKEEPER_QUANTIZER_KERNELS_HOST_H_
