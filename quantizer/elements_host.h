// Element types as loops over host memory take them: how one is stored, loaded
// as float32 and rounded from it. Internal to this package's host kernels.
#ifndef SCALEKEEPER_QUANTIZER_ELEMENTS_HOST_H_
#define SCALEKEEPER_QUANTIZER_ELEMENTS_HOST_H_

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/format.h"

namespace scalekeeper::kernels::host {

struct F32 {
  using Storage = float;
  static constexpr float kMax = kFloatMax;
  static float Load(float x) { return x; }
  static float Store(float x) { return x; }
};
struct BF16 {
  using Storage = uint16_t;
  static constexpr float kMax = 3.3895313892515355e38f;
  static float Load(uint16_t x) { return FloatFromBF16(x); }
  static uint16_t Store(float x) { return BF16FromFloat(x); }
};
struct F16 {
  using Storage = uint16_t;
  static constexpr float kMax = 65504.0f;
  static float Load(uint16_t x) { return FloatFromF16(x); }
  static uint16_t Store(float x) { return F16FromFloat(x); }
};

struct E4M3 {
  using Storage = uint8_t;
  static constexpr float kMax = FormatMax(Format::kE4M3);
  static float Load(uint8_t code) { return DecodeE4M3(code); }
  static uint8_t Store(float x) { return EncodeE4M3(x); }
};
struct E5M2 {
  using Storage = uint8_t;
  static constexpr float kMax = FormatMax(Format::kE5M2);
  static float Load(uint8_t code) { return DecodeE5M2(code); }
  static uint8_t Store(float x) { return EncodeE5M2(x); }
};

// One code in the low four bits of each byte; kernels pack them.
struct E2M1 {
  using Storage = uint8_t;
  static constexpr float kMax = FormatMax(Format::kE2M1);
  static float Load(uint8_t code) { return DecodeE2M1(code); }
  static uint8_t Store(float x) { return EncodeE2M1(x); }
};

// Calls f with the type of a high-precision dtype, or of a format.
template <typename F>
void WithType(DType dtype, F f) {
  if (dtype == DType::kF32) f(F32{});
  if (dtype == DType::kBF16) f(BF16{});
  if (dtype == DType::kF16) f(F16{});
}
template <typename F>
void WithType(Format format, F f) {
  if (format == Format::kE4M3) f(E4M3{});
  if (format == Format::kE5M2) f(E5M2{});
  if (format == Format::kE2M1) f(E2M1{});
}

template <typename T>
const typename T::Storage* Data(const ConstTensorView& view) {
  return static_cast<const typename T::Storage*>(view.data);
}

// Sign-cleared bits are below 2^31: compared as int32, which SSE2 can.
inline int32_t MagnitudeBits(float x) {
  return static_cast<int32_t>(AmaxBits(x));
}

template <typename In>
int32_t RowAmax(const typename In::Storage* x, int64_t count, int64_t stride) {
  int32_t amax = 0;
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) {
      amax = std::max(amax, MagnitudeBits(In::Load(x[i])));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      amax = std::max(amax, MagnitudeBits(In::Load(x[i * stride])));
    }
  }
  return amax;
}

}  // namespace scalekeeper::kernels::host

#endif  // SCALEKEEPER_QUANTIZER_ELEMENTS_HOST_H_
