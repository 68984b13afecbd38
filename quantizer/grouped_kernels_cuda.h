// The CUDA kernels behind quantizer/grouped_kernels.h. Implemented by
// grouped_kernels_cuda.cu, or by kernels_no_cuda.cc. Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_GROUPED_KERNELS_CUDA_H_
#define SCALEKEEPER_QUANTIZER_GROUPED_KERNELS_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/tensor_view.h"
#include "quantizer/grouped_kernels.h"

namespace scalekeeper::kernels::cuda {

absl::Status GroupedOffsets(int device, const int64_t* counts, int experts,
                            int64_t rows, int64_t* offsets, Stream stream);
absl::Status GroupedAmax(const ConstTensorView& x, const GroupedSpec& spec,
                         Stream stream);
absl::Status GroupedCast(const ConstTensorView& x, const GroupedSpec& spec,
                         const GroupedOutput& out, Stream stream);
absl::Status GroupedDecode(const GroupedSpec& spec, const uint8_t* row_wise,
                           const uint8_t* column_wise, const float* scale_inv,
                           const TensorView& out, Stream stream);

}  // namespace scalekeeper::kernels::cuda

#endif  // SCALEKEEPER_QUANTIZER_GROUPED_KERNELS_CUDA_H_
