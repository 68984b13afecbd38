// Observing into a slot from a CUDA kernel: for this library's and for others'.
//
// A slot's amax word takes the maximum of what all threads of all kernels of
// the step observe, as bits (numerics/amax.h): a NaN is never lost, and the
// order does not matter. Values are those that are quantized, after their
// conversion to the tensor's dtype.
//
// Each thread keeps a maximum of its own values and the block observes once:
// an atomic per block, and none where the word is large enough already.
//
// Example:
//   __global__ void Norm(SlotView slot, const float* x, int n) {
//     uint32_t amax = 0;
//     for (int i = threadIdx.x; i < n; i += blockDim.x) {
//       amax = MaxBits(amax, AmaxBits(x[i]));
//     }
//     device::ObserveBlock(slot, amax);
//   }
#ifndef SCALEKEEPER_AMAX_OBSERVE_CUDA_CUH_
#define SCALEKEEPER_AMAX_OBSERVE_CUDA_CUH_

#include <cstdint>

#include "amax/slot_view.h"
#include "numerics/amax.h"

namespace scalekeeper::device {

// Raises *word to at least `bits`; most callers see that it is large enough
// already.
__device__ __forceinline__ void RaiseWord(uint32_t* word, uint32_t bits) {
  if (bits > *static_cast<volatile uint32_t*>(word)) atomicMax(word, bits);
}

// The maximum over the warp, in every lane of it. All 32 lanes call it.
__device__ __forceinline__ uint32_t WarpMax(uint32_t bits) {
  return __reduce_max_sync(0xFFFFFFFFu, bits);
}

// The maximum over the block, in thread 0 of it; others get a partial one. All
// threads of a one-dimensional block of at most 1024, a multiple of 32, call
// it. It synchronizes once; before a second call in the same kernel the caller
// does (__syncthreads).
__device__ __forceinline__ uint32_t BlockMax(uint32_t bits) {
  __shared__ uint32_t warp_max[32];
  bits = WarpMax(bits);
  const unsigned lane = threadIdx.x & 31u;
  const unsigned warp = threadIdx.x >> 5;
  if (lane == 0) warp_max[warp] = bits;
  __syncthreads();
  if (warp == 0) bits = WarpMax(lane < blockDim.x / 32 ? warp_max[lane] : 0u);
  return bits;
}

// One thread's value.
__device__ __forceinline__ void Observe(const SlotView& slot, float value) {
  RaiseWord(slot.amax, AmaxBits(value));
}

// `amax_bits` is each thread's own maximum. Who calls it: as WarpMax, BlockMax.
__device__ __forceinline__ void ObserveWarp(const SlotView& slot,
                                            uint32_t amax_bits) {
  amax_bits = WarpMax(amax_bits);
  if ((threadIdx.x & 31u) == 0) RaiseWord(slot.amax, amax_bits);
}
__device__ __forceinline__ void ObserveBlock(const SlotView& slot,
                                             uint32_t amax_bits) {
  amax_bits = BlockMax(amax_bits);
  if (threadIdx.x == 0) RaiseWord(slot.amax, amax_bits);
  __syncthreads();  // it may be called again
}

}  // namespace scalekeeper::device

#endif  // SCALEKEEPER_AMAX_OBSERVE_CUDA_CUH_
