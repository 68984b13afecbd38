// Quantizer: turns a high-precision tensor into codes under one slot's policy.
//
// One per module and role. Public calls are not virtual: they check their
// arguments and call one protected virtual. Threads: different Quantizers at
// once; one Quantizer from several threads at once is fine for Quantize (amax
// accumulates), setters need exclusion. Must not outlive its RecipeState.
//
// Quantize also observes: the tensor's amax is accumulated into the slot,
// unless observation is off (eval). Zero elements work and observe nothing.
//
// Errors: InvalidArgument naming the argument for a null view, a wrong dtype, a
// shape that does not fit; FailedPrecondition before Freeze.
//
// Example:
//   SK_ASSIGN_OR_RETURN(std::unique_ptr<Quantizer> q,
//                       MakeQuantizer(state.get(), slots.input));
//   SK_ASSIGN_OR_RETURN(QuantizedTensor x8, q->Quantize(x, stream));
//   SK_RETURN_IF_ERROR(q->Dequantize(x8, back, stream));
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
#include "base/tensor_view.h"
#include "quantizer/quantized_tensor.h"
#include "quantizer/statistics.h"

namespace scalekeeper {

class Quantizer {
 public:
  virtual ~Quantizer() = default;

  // Allocates and quantizes. `x` is R x C, any strides, float32 / bfloat16 /
  // float16.
  absl::StatusOr<QuantizedTensor> Quantize(ConstTensorView x, Stream stream);
  // Into a tensor made by MakeEmpty (or an earlier Quantize) of the same shape.
  // `noop_flag` (device word, may be null): non-zero leaves codes, scale_inv
  // and amax as they are.
  absl::Status QuantizeInto(ConstTensorView x, QuantizedTensor* out,
                            const uint32_t* noop_flag, Stream stream);
  absl::Status Dequantize(const QuantizedTensor& q, TensorView out,
                          Stream stream) const;
  absl::StatusOr<QuantizedTensor> MakeEmpty(int64_t rows, int64_t cols) const;
  // Observes the amax of `x` without making codes.
  absl::Status Calibrate(ConstTensorView x, Stream stream);

  // The statistics of numerics.md 7 for `x` under the scale that Quantize would
  // use now; synchronizes, observes nothing.
  absl::StatusOr<Statistics> Measure(ConstTensorView x, Stream stream) const;

  Usages usages() const { return usages_; }
  void set_usages(Usages usages) { usages_ = usages; }
  bool observing() const { return observing_; }
  void set_observing(bool observing) { observing_ = observing; }

 protected:
  // TODO(quantizer builder): virtuals here.

 private:
  Usages usages_;
  bool observing_ = true;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZER_H_
