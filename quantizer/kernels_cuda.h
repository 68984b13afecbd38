// The CUDA kernels behind quantizer/kernels.h: same contracts and the same bits
// as the host's. Implemented by kernels_cuda.cu (and measure_cuda.cu), or by
// kernels_no_cuda.cc. Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_KERNELS_CUDA_H_
#define SCALEKEEPER_QUANTIZER_KERNELS_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor_view.h"
#include "numerics/format.h"
#include "quantizer/kernels.h"
#include "quantizer/statistics.h"

namespace scalekeeper::kernels::cuda {

absl::Status Amax(const ConstTensorView& x, uint32_t* amax, const RunIf& run,
                  Stream stream);
absl::Status TensorAmax(const ConstTensorView& x, AmaxScratch* scratch,
                        const RunIf& run, Stream stream);
absl::Status Cast(const ConstTensorView& x, const CastScale& scale,
                  Format format, const CastOutput& out, const RunIf& run,
                  Stream stream);
absl::Status Decode(const ConstTensorView& codes, Format format,
                    const float* scale_inv, const TensorView& out,
                    Stream stream);
absl::Status Convert(const ConstTensorView& x, const TensorView& out,
                     const RunIf& run, Stream stream);
absl::StatusOr<Statistics> MeasureCast(const ConstTensorView& x,
                                       const CastScale& scale, Format format,
                                       Stream stream);
absl::StatusOr<Statistics> MeasureConvert(const ConstTensorView& x, DType dtype,
                                          Stream stream);

}  // namespace scalekeeper::kernels::cuda

#endif  // SCALEKEEPER_QUANTIZER_KERNELS_CUDA_H_
