// The CUDA kernels behind quantizer/block_kernels.h: same contracts and the
// same bits as the host's. Implemented by block_kernels_cuda.cu, or by
// block_kernels_no_cuda.cc. Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_CUDA_H_
#define SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/tensor_view.h"
#include "numerics/format.h"
#include "quantizer/block_kernels.h"

namespace scalekeeper::kernels::cuda {

absl::Status BlockCast(const ConstTensorView& x, const BlockCastSpec& spec,
                       const BlockCastOutput& out, const RunIf& run,
                       Stream stream);
absl::Status RowwiseCast(const ConstTensorView& x, const BlockCastSpec& spec,
                         const BlockCastOutput& out, uint32_t* row_amax,
                         const RunIf& run, Stream stream);
absl::Status TensorAmaxes(const ConstTensorView& x, bool hadamard,
                          const TensorAmaxWords& words, const RunIf& run,
                          Stream stream);
absl::Status LineAmaxes(const ConstTensorView& x, uint32_t* row_amax,
                        uint32_t* col_amax, const RunIf& run, Stream stream);
absl::Status BlockDecode(const uint8_t* codes, Format format,
                         const BlockScales& scales, bool hadamard,
                         const TensorView& out, Stream stream);

}  // namespace scalekeeper::kernels::cuda

#endif  // SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_CUDA_H_
