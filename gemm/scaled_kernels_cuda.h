// Kernels for operands with scales of their own: scales as cuBLASLt wants them,
// and values for products that the chip does not multiply natively.
//
// All enqueue on the current device and return at once. Pointers are on the
// device.
#ifndef SCALEKEEPER_GEMM_SCALED_KERNELS_CUDA_H_
#define SCALEKEEPER_GEMM_SCALED_KERNELS_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cuda_runtime_api.h"
#include "gemm/matmul_input.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/operand_layout.h"

namespace scalekeeper {

// Loads all of them, so that a first launch may be captured.
void LoadScaledKernels();

// destination[i * row_stride + j * col_stride] = the scale of the view's
// element (i * row_block, j * col_block), for i < padded_rows, j < cols; 0 from
// `rows` on.
struct ExpandScalesArguments {
  internal::GridView grid;
  float* destination = nullptr;
  int64_t rows = 0, padded_rows = 0, cols = 0;  // of the destination's grid
  int64_t row_block = 1, col_block = 1;
  int64_t row_stride = 1, col_stride = 1;
};
absl::Status ExpandScalesOnDevice(const ExpandScalesArguments& arguments,
                                  cudaStream_t stream);

// All bytes of the tiles.
absl::Status TileScalesOnDevice(const internal::TileScalesArguments& arguments,
                                cudaStream_t stream);

// All bytes of the destination, which is aligned to 16 bytes.
absl::Status PackHalvesOnDevice(const internal::PackHalvesArguments& arguments,
                                cudaStream_t stream);

// destination (padded_rows x padded_cols, row-major, without gaps) = the values
// as bfloat16, rounded once, and zeros around them; padded_cols is a multiple
// of 8. `input` is a part of an outer x K operand.
struct DequantizeArguments {
  internal::MatmulInput input;
  uint16_t* destination = nullptr;
  int64_t padded_rows = 0, padded_cols = 0;
};
// The scale of a whole tensor or row is left out, and so is NVFP4's tensor
// scale: what remains of the field's formats is exact in bfloat16. See
// OuterScaleOf.
absl::Status DequantizeOnDevice(const DequantizeArguments& arguments,
                                cudaStream_t stream);

// What DequantizeOnDevice leaves out, by rows of the input.
OuterScale OuterScaleOf(const internal::MatmulInput& input);

// words[0] = *a * *b, words[1] = beta: alpha and beta for a product on the
// device.
absl::Status MakeAlphaOnDevice(const float* a, const float* b, float beta,
                               float* words, cudaStream_t stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_SCALED_KERNELS_CUDA_H_
