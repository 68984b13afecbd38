// What the public calls of a Quantizer hand to the virtual ones, checked.
//
// Example (of a subclass):
//   absl::Status Log8Quantizer::QuantizeImpl(const Call& call,
//                                            QuantizedTensor* out) {
//     if (call.observe) Observe(slot_, AmaxOf(call.x));
//     ...
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZE_CALL_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZE_CALL_H_

#include <cstddef>
#include <cstdint>

#include "amax/amax_group.h"
#include "base/device.h"
#include "base/tensor_view.h"
#include "quantizer/kernels.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

// The view is valid, high precision and on the quantizer's device; the output
// has its shape and device and is one that the quantizer takes.
struct QuantizeCall {
  ConstTensorView x;
  const uint32_t* noop_flag = nullptr;
  bool observe = true;
  kernels::CastCounters* counters = nullptr;
  Stream stream;
  // What MeasureSharedImpl has raised, reduced over the ranks; null: nothing
  // was asked for.
  const uint32_t* shared_amaxes = nullptr;
};

// Amaxes that the ranks of a group share before a tensor is quantized.
struct SharedAmaxes {
  AmaxGroup* group = nullptr;  // null: none
  size_t count = 0;            // device words; the same on every rank
};

// What MakeEmpty was asked for.
struct MakeEmptyCall {
  int64_t rows = 0;
  int64_t cols = 0;
  Usages usages;
  Stream stream;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZE_CALL_H_
