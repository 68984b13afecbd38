#include <vector>

#include "examples/fused_rmsnorm_quantize/rmsnorm.h"
#include "numerics/amax.h"
#include "numerics/format.h"

namespace scalekeeper {

void RmsNormQuantizeHost(const RmsNormTask& task, const SlotView& slot) {
  for (int64_t row = 0; row < task.rows; ++row) {
    const uint16_t* x = task.x + row * task.cols;
    std::vector<float> sums(kLanes, 0.0f);
    for (int64_t c = 0; c < task.cols; ++c) {
      const float value = FloatFromBF16(x[c]);
      const float square = value * value;
      float& sum = sums[static_cast<size_t>(c % kLanes)];
      sum = sum + square;
    }
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
    }
    const float factor = RowFactor(sums[0], task.cols, task.epsilon);
    for (int64_t c = 0; c < task.cols; ++c) {
      const float y = FloatFromBF16(Normalized(x[c], factor, task.gamma[c]));
      task.codes[row * task.cols + c] = EncodeE4M3(y * *slot.scale);
      Observe(slot, AmaxBits(y));
    }
  }
  *task.scale_inv = *slot.scale_inv;
}

}  // namespace scalekeeper
