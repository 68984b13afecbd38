// One block a row, kLanes threads: a first walk sums squares, a second one
// normalizes, casts and keeps the maximum; the row comes from the cache then.
#include "absl/strings/str_cat.h"
#include "amax/observe_cuda.cuh"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "examples/fused_rmsnorm_quantize/rmsnorm.h"
#include "quantizer/cast_cuda.cuh"

namespace scalekeeper {
namespace {

__global__ void __launch_bounds__(kLanes)
    RmsNormQuantize(RmsNormTask task, SlotView slot) {
  __shared__ float sums[kLanes];
  const uint16_t* x = task.x + blockIdx.x * task.cols;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < task.cols; c += kLanes) {
    const float value = FloatFromBF16(x[c]);
    const float square = value * value;
    sum = sum + square;
  }
  sums[threadIdx.x] = sum;
  for (int half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half];
    }
  }
  __syncthreads();
  const float factor = RowFactor(sums[0], task.cols, task.epsilon);
  const float scale = *slot.scale;
  uint32_t amax = 0;
  for (int64_t c = threadIdx.x; c < task.cols; c += kLanes) {
    const float y = FloatFromBF16(Normalized(x[c], factor, task.gamma[c]));
    amax = MaxBits(amax, AmaxBits(y));
    task.codes[blockIdx.x * task.cols + c] = static_cast<uint8_t>(
        device::EncodePair<Format::kE4M3>(y * scale, 0.0f));
  }
  device::ObserveBlock(slot, amax);
  if (blockIdx.x == 0 && threadIdx.x == 0) *task.scale_inv = *slot.scale_inv;
}

}  // namespace

absl::Status RmsNormQuantizeCuda(const RmsNormTask& task, const SlotView& slot,
                                 Stream stream) {
  if (task.rows < 0 || task.rows > INT32_MAX || task.cols < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("RmsNormTask: got ", task.rows, "x", task.cols,
                     ", want 0..2^31-1 rows of at least one value"));
  }
  if (task.rows == 0) return absl::OkStatus();
  RmsNormQuantize<<<static_cast<unsigned>(task.rows), kLanes, 0,
                    AsCudaStream(stream)>>>(task, slot);
  return CudaStatus(cudaGetLastError(), "launch of RmsNormQuantize");
}

}  // namespace scalekeeper
