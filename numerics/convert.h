// One element of a high-precision tensor as float32, and back.
//
// Widening is exact; narrowing rounds once, to nearest even. kUint8 is not a
// number here: it reads as 0 and writes nothing.
#ifndef SCALEKEEPER_NUMERICS_CONVERT_H_
#define SCALEKEEPER_NUMERICS_CONVERT_H_

#include <cstdint>

#include "base/dtype.h"
#include "numerics/bits.h"
#include "numerics/host_device.h"

namespace scalekeeper {

// `data` points at element 0; `index` counts elements.
SK_HOST_DEVICE inline float LoadFloat(DType dtype, const void* data,
                                      int64_t index = 0) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[index];
    case DType::kBF16:
      return FloatFromBF16(static_cast<const uint16_t*>(data)[index]);
    case DType::kF16:
      return FloatFromF16(static_cast<const uint16_t*>(data)[index]);
    case DType::kUint8:
      break;
  }
  return 0;
}

SK_HOST_DEVICE inline void StoreFloat(DType dtype, float value, void* data,
                                      int64_t index = 0) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(data)[index] = value;
      break;
    case DType::kBF16:
      static_cast<uint16_t*>(data)[index] = BF16FromFloat(value);
      break;
    case DType::kF16:
      static_cast<uint16_t*>(data)[index] = F16FromFloat(value);
      break;
    case DType::kUint8:
      break;
  }
}

// As StoreFloat, from a double: still one rounding.
SK_HOST_DEVICE inline void StoreDouble(DType dtype, double value, void* data,
                                       int64_t index = 0) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[index] = static_cast<float>(value);
  } else {
    StoreFloat(dtype, FloatFromDoubleToOdd(value), data, index);
  }
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_CONVERT_H_
