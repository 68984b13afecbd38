// Building blocks of kernels that quantize, for this library's and for others'.
//
// Device code only. Needs sm_89 or later (the FP8 conversion instruction); the
// same bits as numerics/format.h, shown by tests/quantizer.
//
// Example: four values of a thread, their amax into the slot once per block.
//   uint32_t codes =
//       device::EncodeWord<Format::kE4M3>(a * s, b * s, c * s, d * s);
//   uint32_t amax = MaxBits(AmaxBits(a), ...);
//   device::ObserveBlock(slot, amax);  // amax/observe_cuda.cuh
#ifndef SCALEKEEPER_QUANTIZER_CAST_CUDA_CUH_
#define SCALEKEEPER_QUANTIZER_CAST_CUDA_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "amax/observe_cuda.cuh"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/format.h"

namespace scalekeeper::device {

// Two codes, `low` in the low byte: round to nearest even, saturating.
template <Format kFormat>
__device__ __forceinline__ uint32_t EncodePair(float low, float high) {
  static_assert(kFormat == Format::kE4M3 || kFormat == Format::kE5M2, "FP8");
  return __nv_cvt_float2_to_fp8x2(
      make_float2(low, high), __NV_SATFINITE,
      kFormat == Format::kE4M3 ? __NV_E4M3 : __NV_E5M2);
}

// Four codes, the first in the lowest byte.
template <Format kFormat>
__device__ __forceinline__ uint32_t EncodeWord(float a, float b, float c,
                                               float d) {
  return EncodePair<kFormat>(a, b) | (EncodePair<kFormat>(c, d) << 16);
}

// A 32-bit word of bfloat16 / half / float32 elements, in memory order.
struct BF16 {
  static constexpr int kPerWord = 2;
  using Storage = uint16_t;
  static __device__ __forceinline__ float Load(uint16_t x) {
    return FloatFromBF16(x);
  }
  static __device__ __forceinline__ void Unpack(uint32_t word, float* out) {
    out[0] = __uint_as_float(word << 16);
    out[1] = __uint_as_float(word & 0xFFFF0000u);
  }
  // Keeps the larger magnitude of each element.
  static __device__ __forceinline__ uint32_t FoldAmax(uint32_t fold,
                                                      uint32_t word) {
    return __vmaxu2(fold, word & 0x7FFF7FFFu);
  }
  static __device__ __forceinline__ uint32_t AmaxOfFold(uint32_t fold) {
    return MaxBits(fold << 16, fold & 0xFFFF0000u);
  }
};

struct F16 {
  static constexpr int kPerWord = 2;
  using Storage = uint16_t;
  // Keeps a NaN's payload, which is part of its amax bits.
  static __device__ __forceinline__ float Load(uint16_t x) {
    return FloatFromF16(x);
  }
  // To be encoded: any NaN will do.
  static __device__ __forceinline__ void Unpack(uint32_t word, float* out) {
    out[0] = __half2float(__ushort_as_half(static_cast<uint16_t>(word)));
    out[1] = __half2float(__ushort_as_half(static_cast<uint16_t>(word >> 16)));
  }
  static __device__ __forceinline__ uint32_t FoldAmax(uint32_t fold,
                                                      uint32_t word) {
    return __vmaxu2(fold, word & 0x7FFF7FFFu);
  }
  static __device__ __forceinline__ uint32_t AmaxOfFold(uint32_t fold) {
    // The order of half magnitudes is that of their bits, NaN on top.
    const uint32_t half = MaxBits(fold & 0xFFFFu, fold >> 16);
    return AmaxBits(FloatFromF16(static_cast<uint16_t>(half)));
  }
};

struct F32 {
  static constexpr int kPerWord = 1;
  using Storage = float;
  static __device__ __forceinline__ float Load(float x) { return x; }
  static __device__ __forceinline__ void Unpack(uint32_t word, float* out) {
    out[0] = __uint_as_float(word);
  }
  static __device__ __forceinline__ uint32_t FoldAmax(uint32_t fold,
                                                      uint32_t word) {
    return MaxBits(fold, word & kFloatMagnitudeMask);
  }
  static __device__ __forceinline__ uint32_t AmaxOfFold(uint32_t fold) {
    return fold;
  }
};

}  // namespace scalekeeper::device

#endif  // SCALEKEEPER_QUANTIZER_CAST_CUDA_CUH_
