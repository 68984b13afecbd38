// Our element types as cudaDataType_t, and their sizes.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_TYPES_H_
#define SCALEKEEPER_GEMM_CUBLASLT_TYPES_H_

#include <cstdint>

#include "base/dtype.h"
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

// `format` is an 8-bit one.
inline cudaDataType_t CudaType(Format format) {
  return format == Format::kE5M2 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
}

// Of the types above.
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

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CUBLASLT_TYPES_H_
