// The products that matmul_cuda_benchmark times.
#ifndef SCALEKEEPER_BENCHMARKS_MATMUL_ROWS_CUDA_H_
#define SCALEKEEPER_BENCHMARKS_MATMUL_ROWS_CUDA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "cublasLt.h"
#include "gemm/matmul.h"
#include "numerics/format.h"
#include "recipe/policy.h"

namespace scalekeeper {

// How an operand is scaled. The modes are cuBLASLt's.
struct Scaled {
  Scaling scaling = Scaling::kDelayed;
  int64_t block_rows = 0;  // 0: all
  int64_t block_cols = 0;
  cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};
inline constexpr Scaled kRowwise = {Scaling::kRowwise, 1, 0,
                                    CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F};
inline constexpr Scaled k1x128 = {Scaling::kBlock, 1, 128,
                                  CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F};
inline constexpr Scaled k128x128 = {
    Scaling::kBlock, 128, 128, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F};
// No Hopper multiplies them: emulated.
inline constexpr Scaled kMxfp8 = {Scaling::kMxfp8, 1, 32,
                                  CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0};

// y = activation(x w^T + bias) [+ y], x: M x K, w: N x K.
struct Row {
  std::string name;
  int64_t m = 4096, n = 4096, k = 4096;
  std::optional<Format> x_format = Format::kE4M3;  // nullopt: plain
  Format w_format = Format::kE4M3;
  DType plain = DType::kBF16;
  DType out = DType::kBF16;
  std::optional<Format> out_format = std::nullopt;
  std::optional<DType> bias = std::nullopt;
  Activation activation = Activation::kNone;
  bool accumulate = false;
  bool fast_accum = true;
  bool w_off_by_16 = false;  // w is aligned to 16 bytes and no more
  Scaled x_scaled, w_scaled;

  bool IsBlocked() const {
    return x_scaled.block_cols == 128 || w_scaled.block_cols == 128;
  }
  bool IsEmulated() const { return x_scaled.scaling == Scaling::kMxfp8; }
};

std::vector<Row> MatmulRows();

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BENCHMARKS_MATMUL_ROWS_CUDA_H_
