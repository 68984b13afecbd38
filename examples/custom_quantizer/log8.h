// A quantizer of one's own: an 8-bit format that is even on a logarithmic
// scale.
//
// A code is a sign bit and a 7-bit number k: k = 0 is zero, and k = 1..127 is
// amax * 2^((k - 127) / steps), where amax is the tensor's and `steps` is how
// many codes an octave has. With 8 of them neighbours are 9% apart everywhere,
// from amax down to amax * 2^-15.75; what is smaller becomes the smallest code
// or, from half of that on, zero.
//
// What a subclass of Quantizer offers, beside the required QuantizeImpl: both
// usages (MakeEmptyImpl), and reading back (DequantizeImpl), which Matmul uses
// too. It observes, so that infinities and NaNs raise the slot's flag, and
// leaves out calibration and statistics. On the host.
//
// Example (in a recipe, after RegisterLog8):
//   custom {
//     factory: "examples.log8"
//     parameters { fields { key: "steps" value { number_value: 8 } } }
//   }
#ifndef SCALEKEEPER_EXAMPLES_CUSTOM_QUANTIZER_LOG8_H_
#define SCALEKEEPER_EXAMPLES_CUSTOM_QUANTIZER_LOG8_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/slot_view.h"
#include "quantizer/custom_quantizer.h"
#include "quantizer/quantizer.h"

namespace scalekeeper {

// The code of x, and what it stands for. NaN takes the code of amax.
uint8_t EncodeLog8(float x, float amax, float steps);
float DecodeLog8(uint8_t code, float amax, float steps);

class Log8Quantizer : public Quantizer {
 public:
  Log8Quantizer(const CustomQuantizerArgs& args, float steps)
      : Quantizer(args),
        policy_(args.policy),
        slot_(args.slot),
        steps_(steps) {}

 protected:
  absl::Status QuantizeImpl(const Call& call, QuantizedTensor* out) override;
  absl::StatusOr<QuantizedTensor> MakeEmptyImpl(
      const EmptyCall& call) const override;
  absl::Status DequantizeImpl(const QuantizedTensor& q, const TensorView& out,
                              Stream stream) const override;

 private:
  const Policy policy_;
  const SlotView slot_;
  const float steps_;
};

// Registers "examples.log8".
absl::Status RegisterLog8();

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_CUSTOM_QUANTIZER_LOG8_H_
