// Where a cast takes its scale from, decided on the device that casts.
//
// One cast kernel serves every per-tensor scaling: it resolves its scale from
// this plain struct, so that no extra launch and no host decision is needed.
// The formulas are numerics/scale.h; host and CUDA call the same function.
#ifndef SCALEKEEPER_QUANTIZER_CAST_SCALE_H_
#define SCALEKEEPER_QUANTIZER_CAST_SCALE_H_

#include <cstdint>

#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/host_device.h"
#include "numerics/scale.h"

namespace scalekeeper::kernels {

// Zero before its first use; `amax` is the result, the rest is the kernels'.
struct AmaxScratch {
  uint32_t amax = 0;
  uint32_t folding = 0;
  uint32_t arrived = 0;
  uint32_t tickets = 0;
  uint32_t departed = 0;
};

// Pointers are device words of the device that casts.
struct CastScale {
  enum class Kind {
    kGiven,    // *scale as it is
    kDelayed,  // *scale, or while *measure is set ScaleFromAmax(*tensor_amax)
    kCurrent,  // CurrentScaleFromAmax(*tensor_amax, current)
  };
  Kind kind = Kind::kGiven;
  const float* scale = nullptr;           // kGiven, kDelayed
  const uint32_t* measure = nullptr;      // kDelayed; null: not set
  const uint32_t* tensor_amax = nullptr;  // kDelayed with measure, kCurrent
  // Not null: where Cast takes the amax of its tensor itself, in place of
  // *tensor_amax. One cast at a time.
  AmaxScratch* scratch = nullptr;
  int margin = 0;               // kDelayed
  CurrentScaleOptions current;  // format_max: both; rest: kCurrent
  // Receive 1 / scale, unless null.
  float* row_wise_scale_inv = nullptr;
  float* column_wise_scale_inv = nullptr;
};

inline CastScale GivenScale(const float* scale) {
  CastScale source;
  source.scale = scale;
  return source;
}

// Whether the scale is made from the amax of the tensor that is cast.
SK_HOST_DEVICE inline bool NeedsTensorAmax(const CastScale& source) {
  switch (source.kind) {
    case CastScale::Kind::kGiven:
      return false;
    case CastScale::Kind::kDelayed:
      return source.measure != nullptr && *source.measure != 0;
    case CastScale::Kind::kCurrent:
      return true;
  }
  return false;
}

// The scale that is made from a tensor's amax.
SK_HOST_DEVICE inline float TensorScale(const CastScale& source,
                                        uint32_t amax) {
  if (source.kind == CastScale::Kind::kCurrent) {
    return CurrentScaleFromAmax(amax, source.current);
  }
  if (amax == 0 || IsNonFiniteAmax(amax)) return *source.scale;
  return ScaleFromAmax(FloatFromBits(amax), source.current.format_max,
                       source.margin);
}

// The scale to multiply with, where *tensor_amax is known.
SK_HOST_DEVICE inline float ResolveScale(const CastScale& source) {
  if (!NeedsTensorAmax(source)) return *source.scale;
  return TensorScale(source, *source.tensor_amax);
}

// Writes the inverse where the source asks for it. One thread.
SK_HOST_DEVICE inline void WriteScaleInverse(const CastScale& source,
                                             float scale) {
  const float inverse = ScaleInverse(scale);
  if (source.row_wise_scale_inv != nullptr) {
    *source.row_wise_scale_inv = inverse;
  }
  if (source.column_wise_scale_inv != nullptr) {
    *source.column_wise_scale_inv = inverse;
  }
}

}  // namespace scalekeeper::kernels

#endif  // SCALEKEEPER_QUANTIZER_CAST_SCALE_H_
