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

// Eight E2M1 codes of v[i] * scale, the first in the lowest nibble, for two
// elements to a word (bfloat16, half) whose signs `words` holds. scale > 0, or
// NaN, where every code is 7; finite values and infinities else.
__device__ __forceinline__ uint32_t EncodeE2M1Word(const uint32_t (&words)[4],
                                                   const float (&v)[8],
                                                   float scale) {
  uint32_t codes = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    codes = codes * 16 + OffsetE2M1(fminf(fabsf(v[i]) * scale, 6.0f));
  }
  codes -= kE2M1Offset * 0x11111111u;
  const uint32_t odd =
      __byte_perm(__byte_perm(words[0], words[1], 0x0073),
                  __byte_perm(words[2], words[3], 0x0073), 0x5410);
  const uint32_t even =
      __byte_perm(__byte_perm(words[0], words[1], 0x0051),
                  __byte_perm(words[2], words[3], 0x0051), 0x5410);
  const uint32_t signs = (odd & 0x80808080u) | ((even & 0x80808080u) >> 4);
  return scale == scale ? codes | signs : codes;
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
