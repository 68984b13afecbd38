// While an InferenceGuard lives, its thread runs with gradients off.
//
// Every Quantizer called on that thread then observes nothing, and makes new
// tensors with row-wise usage only (what fprop reads) if row-wise is among its
// usages. Nothing is changed in the quantizers: after the guard, training goes
// on with what it had. QuantizeInto writes every use that its tensor has, so a
// tensor never holds two different versions. Guards nest; per thread; the
// statistics, scales and histories of the RecipeState stay as they are. For a
// process that never trains: RecipeStateOptions::inference.
//
// Example:
//   {
//     InferenceGuard inference;
//     SK_ASSIGN_OR_RETURN(QuantizedTensor x8, quantizer->Quantize(x, stream));
//   }
#ifndef SCALEKEEPER_QUANTIZER_INFERENCE_GUARD_H_
#define SCALEKEEPER_QUANTIZER_INFERENCE_GUARD_H_

namespace scalekeeper {

class InferenceGuard {
 public:
  InferenceGuard() { ++depth_; }
  ~InferenceGuard() { --depth_; }
  InferenceGuard(const InferenceGuard&) = delete;
  InferenceGuard& operator=(const InferenceGuard&) = delete;

  // True while any guard lives on the calling thread.
  static bool active() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_INFERENCE_GUARD_H_
