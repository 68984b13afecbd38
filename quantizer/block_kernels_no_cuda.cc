#include "base/no_cuda.h"
#include "quantizer/block_kernels_cuda.h"

namespace scalekeeper::kernels::cuda {
namespace {

absl::Status Missing() { return BuiltWithoutCuda("quantizer block kernels"); }

}  // namespace

absl::Status BlockCast(const ConstTensorView&, const BlockCastSpec&,
                       const BlockCastOutput&, const RunIf&, Stream) {
  return Missing();
}
absl::Status RowwiseCast(const ConstTensorView&, const BlockCastSpec&,
                         const BlockCastOutput&, uint32_t*, const RunIf&,
                         Stream) {
  return Missing();
}
absl::Status TensorAmaxes(const ConstTensorView&, bool, const TensorAmaxWords&,
                          const RunIf&, Stream) {
  return Missing();
}
absl::Status LineAmaxes(const ConstTensorView&, uint32_t*, uint32_t*,
                        const RunIf&, Stream) {
  return Missing();
}
absl::Status BlockDecode(const uint8_t*, Format, const BlockScales&, bool,
                         const TensorView&, Stream) {
  return Missing();
}

}  // namespace scalekeeper::kernels::cuda
