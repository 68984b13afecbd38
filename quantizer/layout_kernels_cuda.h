// The CUDA kernels behind quantizer/layout_kernels.h. Implemented by
// layout_kernels_cuda.cu, or by kernels_no_cuda.cc. Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_LAYOUT_KERNELS_CUDA_H_
#define SCALEKEEPER_QUANTIZER_LAYOUT_KERNELS_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/device.h"
#include "quantizer/layout_kernels.h"

namespace scalekeeper::kernels::cuda {

absl::Status TransposeCodes(int device, const void* codes, int64_t rows,
                            int64_t cols, int bits, void* out, Stream stream);
absl::Status TransposeScales(int device, const BlockScales& from,
                             const BlockScales& to, int64_t to_code_rows,
                             Stream stream);
absl::Status Interleave(int device, const GatheredBlocks& blocks, uint8_t* out,
                        float* scale_inv, Stream stream);

}  // namespace scalekeeper::kernels::cuda

#endif  // SCALEKEEPER_QUANTIZER_LAYOUT_KERNELS_CUDA_H_
