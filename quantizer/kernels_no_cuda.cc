#include "base/no_cuda.h"
#include "quantizer/grouped_kernels_cuda.h"
#include "quantizer/kernels_cuda.h"
#include "quantizer/layout_kernels_cuda.h"

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

absl::Status TransposeCodes(int, const void*, int64_t, int64_t, int, void*,
                            Stream) {
  return Missing();
}
absl::Status TransposeScales(int, const BlockScales&, const BlockScales&,
                             int64_t, Stream) {
  return Missing();
}
absl::Status Interleave(int, const GatheredBlocks&, uint8_t*, float*, Stream) {
  return Missing();
}

absl::Status GroupedOffsets(int, const int64_t*, int, int64_t, int64_t*,
                            Stream) {
  return Missing();
}
absl::Status GroupedAmax(const ConstTensorView&, const GroupedSpec&, Stream) {
  return Missing();
}
absl::Status GroupedCast(const ConstTensorView&, const GroupedSpec&,
                         const GroupedOutput&, Stream) {
  return Missing();
}
absl::Status GroupedDecode(const GroupedSpec&, const uint8_t*, const uint8_t*,
                           const float*, const TensorView&, Stream) {
  return Missing();
}

}  // namespace scalekeeper::kernels::cuda
