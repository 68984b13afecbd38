// RMSNorm whose output is quantized and observed in the same pass: what a
// framework's own fused kernel does with a SlotView.
//
//   y = bf16(x / sqrt(mean(x^2) + epsilon) * gamma)
//   code = rne(float32(y) * scale), amax |= max |y|
//
// y itself is never written. Sums of a row are taken in a fixed order, kLanes
// interleaved partial sums and then a tree, so that host and CUDA give the same
// bits. It serves slots whose scale is set (delayed scaling after its first
// update, or first_step: UNIT): a fused kernel does not measure first.
//
// Errors: InvalidArgument for a shape or dtype that does not fit.
#ifndef SCALEKEEPER_EXAMPLES_FUSED_RMSNORM_QUANTIZE_RMSNORM_H_
#define SCALEKEEPER_EXAMPLES_FUSED_RMSNORM_QUANTIZE_RMSNORM_H_

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "amax/slot_view.h"
#include "base/device.h"
#include "numerics/bits.h"
#include "numerics/host_device.h"

namespace scalekeeper {

inline constexpr int kLanes = 256;

struct RmsNormTask {
  const uint16_t* x = nullptr;   // rows x cols bfloat16, row-major
  const float* gamma = nullptr;  // cols
  int64_t rows = 0;
  int64_t cols = 0;
  float epsilon = 1e-6f;
  uint8_t* codes = nullptr;    // rows x cols E4M3
  float* scale_inv = nullptr;  // one, for the codes
};

// The factor of a row from its sum of squares.
SK_HOST_DEVICE inline float RowFactor(float sum_of_squares, int64_t cols,
                                      float epsilon) {
  return 1.0f / sqrtf(sum_of_squares / static_cast<float>(cols) + epsilon);
}

// One normalized value, as bfloat16.
SK_HOST_DEVICE inline uint16_t Normalized(uint16_t x, float factor,
                                          float gamma) {
  const float scaled = FloatFromBF16(x) * factor;
  return BF16FromFloat(scaled * gamma);
}

// The same on the host (the slot's words are host memory), for comparison.
void RmsNormQuantizeHost(const RmsNormTask& task, const SlotView& slot);

// On the current CUDA device, queued on `stream`.
absl::Status RmsNormQuantizeCuda(const RmsNormTask& task, const SlotView& slot,
                                 Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_FUSED_RMSNORM_QUANTIZE_RMSNORM_H_
