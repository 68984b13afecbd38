#include "base/no_cuda.h"
#include "quantizer/kernels_cuda.h"

namespace scalekeeper::kernels::cuda {
namespace {

absl::Status Missing() { return BuiltWithoutCuda("quantizer kernels"); }

}  // namespace

absl::Status Amax(const ConstTensorView&, uint32_t*, const RunIf&, Stream) {
  return Missing();
}
absl::Status TensorAmax(const ConstTensorView&, AmaxScratch*, const RunIf&,
                        Stream) {
  return Missing();
}
absl::Status Cast(const ConstTensorView&, const CastScale&, Format,
                  const CastOutput&, const RunIf&, Stream) {
  return Missing();
}
absl::Status Decode(const ConstTensorView&, Format, const float*,
                    const TensorView&, Stream) {
  return Missing();
}
absl::Status Convert(const ConstTensorView&, const TensorView&, const RunIf&,
                     Stream) {
  return Missing();
}
absl::StatusOr<Statistics> MeasureCast(const ConstTensorView&, const CastScale&,
                                       Format, Stream) {
  return Missing();
}
absl::StatusOr<Statistics> MeasureConvert(const ConstTensorView&, DType,
                                          Stream) {
  return Missing();
}

}  // namespace scalekeeper::kernels::cuda
