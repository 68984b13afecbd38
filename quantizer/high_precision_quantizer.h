// high_precision: the tensor is kept, rounded to the policy's dtype (bfloat16,
// float16 or float32; to nearest even, overflow gives infinity). The
// column-wise use is a transposed copy; there is no scale and nothing is
// observed.
//
// Threads, errors, order of calls: quantizer.h. Calibrate does nothing.
#ifndef SCALEKEEPER_QUANTIZER_HIGH_PRECISION_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_HIGH_PRECISION_QUANTIZER_H_

#include <string>

#include "quantizer/quantizer.h"
#include "recipe/policy.h"

namespace scalekeeper {

class HighPrecisionQuantizer : public Quantizer {
 public:
  HighPrecisionQuantizer(std::string name, const Policy& policy, Device device,
                         Usages usages, Allocator* allocator);

 protected:
  absl::Status QuantizeImpl(const Call& call, QuantizedTensor* out) override;
  absl::Status CheckOutImpl(const QuantizedTensor& out) const override;
  absl::StatusOr<QuantizedTensor> MakeEmptyImpl(
      const EmptyCall& call) const override;
  absl::Status CalibrateImpl(const Call& call) override;
  absl::StatusOr<Statistics> MeasureImpl(const ConstTensorView& x,
                                         Stream stream) const override;

 private:
  const Policy policy_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_HIGH_PRECISION_QUANTIZER_H_
