// Kernels that quantize the rows of several experts at once, each with its own
// slot: which rows are whose is known to the device alone.
//
// As quantizer/kernels.h in all that is said there: no state, no allocation,
// queued on `stream`, validated by the caller, Unimplemented for a device that
// this build has no kernels for, the same bits on every backend. Rows of one
// expert lie behind each other, in the order of the experts; rows after the
// last expert's are padding, which nothing reads or writes.
//
// Example: quantizer/grouped_quantizer.cc.
#ifndef SCALEKEEPER_QUANTIZER_GROUPED_KERNELS_H_
#define SCALEKEEPER_QUANTIZER_GROUPED_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/device.h"
#include "base/tensor_view.h"
#include "numerics/format.h"
#include "numerics/host_device.h"
#include "numerics/scale.h"
#include "quantizer/cast_scale.h"

namespace scalekeeper::kernels {

// An expert's device words; `scale` and `measure` may be null where the spec
// does not read them.
struct GroupedSlot {
  uint32_t* amax = nullptr;
  const float* scale = nullptr;
  const uint32_t* measure = nullptr;
};

// Pointers are device memory.
struct GroupedSpec {
  int experts = 0;
  const GroupedSlot* slots = nullptr;  // one per expert
  const int64_t* offsets = nullptr;    // experts + 1: where their rows begin
  // Bits of each expert's amax, for scales that are made from it.
  uint32_t* amaxes = nullptr;
  CastScale::Kind kind = CastScale::Kind::kDelayed;  // or kCurrent
  bool measures = false;  // kDelayed: where *slot.measure is set
  int margin = 0;
  CurrentScaleOptions current;  // format_max: both
  Format format = Format::kE4M3;
};

// Floats from one expert's scale_inv to the next one's: 16 bytes, as cuBLASLt
// wants the addresses of scales to be aligned.
inline constexpr int kGroupedScaleStride = 4;

// Null pointers are left out.
struct GroupedOutput {
  uint8_t* row_wise = nullptr;  // R x C codes
  // Per expert C x R_e codes, the expert's at byte offsets[e] * C.
  uint8_t* column_wise = nullptr;
  // One per expert, also for one without rows, kGroupedScaleStride apart.
  float* scale_inv = nullptr;
  bool observe = false;  // raises *slot.amax to the amax of its rows
};

// Where the scale of expert `e` comes from.
SK_HOST_DEVICE inline CastScale ScaleOfExpert(const GroupedSpec& spec, int e) {
  CastScale scale;
  scale.kind = spec.kind;
  scale.scale = spec.slots[e].scale;
  scale.measure = spec.measures ? spec.slots[e].measure : nullptr;
  scale.tensor_amax = spec.amaxes + e;
  scale.margin = spec.margin;
  scale.current = spec.current;
  return scale;
}

// Whose row it is; `experts` for a row behind all of them.
SK_HOST_DEVICE inline int ExpertOfRow(const int64_t* offsets, int experts,
                                      int64_t row) {
  int low = 0, high = experts;  // offsets[low] <= row
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (offsets[middle] <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// offsets[e] = counts[0] + ... + counts[e - 1]. A GPU cannot refuse counts that
// are negative or more than `rows`: it takes those as 0 and drops what is too
// much; on the host they are InvalidArgument naming the expert.
absl::Status GroupedOffsets(const int64_t* counts, int experts, int64_t rows,
                            int64_t* offsets, Device device, Stream stream);

// Raises amaxes[e] to the amax of expert e's rows, where its scale needs it.
absl::Status GroupedAmax(const ConstTensorView& x, const GroupedSpec& spec,
                         Stream stream);

// code = rne(float32(x) * scale of its expert), saturating.
absl::Status GroupedCast(const ConstTensorView& x, const GroupedSpec& spec,
                         const GroupedOutput& out, Stream stream);

// Row-wise codes (or column-wise ones, where those are null) back to values;
// padding becomes 0.
absl::Status GroupedDecode(const GroupedSpec& spec, const uint8_t* row_wise,
                           const uint8_t* column_wise, const float* scale_inv,
                           const TensorView& out, Stream stream);

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_GROUPED_KERNELS_H_
