// Our element types as cudaDataType_t, and their sizes.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_TYPES_H_
#define SCALEKEEPER_GEMM_CUBLASLT_TYPES_H_

#include <cstdint>

#include "base/dtype.h"
#include "cublasLt.h"
#include "gemm/native_product.h"
#include "library_types.h"
#include "numerics/format.h"

namespace scalekeeper {

// `dtype` is high precision.
inline cudaDataType_t CudaType(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

inline cudaDataType_t CudaType(Format format) {
  switch (format) {
    case Format::kE4M3:
      return CUDA_R_8F_E4M3;
    case Format::kE5M2:
      return CUDA_R_8F_E5M2;
    case Format::kE2M1:
      break;
  }
  return CUDA_R_4F_E2M1;
}

// Of the types above; of E2M1, of two elements.
inline int64_t BytesOf(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    default:
      return 1;
  }
}

// Modes have cuBLASLt's numbers.
static_assert(static_cast<int>(internal::ScaleMode::kScalar) ==
              CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
static_assert(static_cast<int>(internal::ScaleMode::kVec16Ue4m3) ==
              CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3);
static_assert(static_cast<int>(internal::ScaleMode::kVec32Ue8m0) ==
              CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0);
static_assert(static_cast<int>(internal::ScaleMode::kOuterVec) ==
              CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
static_assert(static_cast<int>(internal::ScaleMode::kVec128) ==
              CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
static_assert(static_cast<int>(internal::ScaleMode::kBlock128x128) ==
              CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CUBLASLT_TYPES_H_
