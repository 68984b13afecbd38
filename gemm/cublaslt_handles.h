// Owners of cuBLASLt's handles, its errors as Status, typed attributes.
//
// The only file that destroys cuBLASLt objects: whatever is created goes into
// an owner on the line that creates it. Errors carry the text of the call.
//
// Example:
//   SK_ASSIGN_OR_RETURN(CublasLtMatmulDesc desc, CreateMatmulDesc(compute));
//   SK_RETURN_IF_ERROR(SetAttribute(desc.get(), CUBLASLT_MATMUL_DESC_TRANSA,
//                                   CUBLAS_OP_T));
#ifndef SCALEKEEPER_GEMM_CUBLASLT_HANDLES_H_
#define SCALEKEEPER_GEMM_CUBLASLT_HANDLES_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cublasLt.h"

namespace scalekeeper {

// `call` is the text of the call that returned `status`.
inline absl::Status CublasStatus(cublasStatus_t status,
                                 absl::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kInternal;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    code = absl::StatusCode::kResourceExhausted;
  } else if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
    code = absl::StatusCode::kUnimplemented;
  } else if (status == CUBLAS_STATUS_NOT_INITIALIZED ||
             status == CUBLAS_STATUS_ARCH_MISMATCH) {
    code = absl::StatusCode::kFailedPrecondition;
  }
  return absl::Status(
      code, absl::StrCat(call, ": ", cublasLtGetStatusString(status), " (",
                         static_cast<int>(status), ")"));
}

}  // namespace scalekeeper

#define SK_CUBLAS_RETURN_IF_ERROR(call)                            \
  do {                                                             \
    if (const cublasStatus_t sk_cublas_status = (call);            \
        sk_cublas_status != CUBLAS_STATUS_SUCCESS) {               \
      return ::scalekeeper::CublasStatus(sk_cublas_status, #call); \
    }                                                              \
  } while (false)

namespace scalekeeper {

template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
class CublasLtOwner {
 public:
  CublasLtOwner() = default;
  explicit CublasLtOwner(Handle handle) : handle_(handle) {}
  CublasLtOwner(CublasLtOwner&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  CublasLtOwner& operator=(CublasLtOwner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CublasLtOwner() {
    if (handle_ != nullptr) (void)kDestroy(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using CublasLtHandle = CublasLtOwner<cublasLtHandle_t, cublasLtDestroy>;
using CublasLtMatmulDesc =
    CublasLtOwner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using CublasLtMatrixLayout =
    CublasLtOwner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using CublasLtMatmulPreference =
    CublasLtOwner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// For the current device.
inline absl::StatusOr<CublasLtHandle> CreateCublasLtHandle() {
  cublasLtHandle_t handle = nullptr;
  SK_CUBLAS_RETURN_IF_ERROR(cublasLtCreate(&handle));
  return CublasLtHandle(handle);
}

// Scale type float32, alpha and beta on the host.
inline absl::StatusOr<CublasLtMatmulDesc> CreateMatmulDesc(
    cublasComputeType_t compute) {
  cublasLtMatmulDesc_t desc = nullptr;
  SK_CUBLAS_RETURN_IF_ERROR(
      cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F));
  return CublasLtMatmulDesc(desc);
}

// rows x cols, column-major, ld elements between columns.
inline absl::StatusOr<CublasLtMatrixLayout> CreateMatrixLayout(
    cudaDataType_t type, int64_t rows, int64_t cols, int64_t ld) {
  cublasLtMatrixLayout_t layout = nullptr;
  SK_CUBLAS_RETURN_IF_ERROR(
      cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows),
                                 static_cast<uint64_t>(cols), ld));
  return CublasLtMatrixLayout(layout);
}

inline absl::StatusOr<CublasLtMatmulPreference> CreateMatmulPreference() {
  cublasLtMatmulPreference_t preference = nullptr;
  SK_CUBLAS_RETURN_IF_ERROR(cublasLtMatmulPreferenceCreate(&preference));
  return CublasLtMatmulPreference(preference);
}

// T must be the attribute's documented type: its size is checked by cuBLASLt.
template <typename T>
absl::Status SetAttribute(cublasLtMatmulDesc_t desc,
                          cublasLtMatmulDescAttributes_t attribute,
                          const T& value) {
  if (const cublasStatus_t status = cublasLtMatmulDescSetAttribute(
          desc, attribute, static_cast<const void*>(&value), sizeof(T));
      status != CUBLAS_STATUS_SUCCESS) {
    return CublasStatus(
        status, absl::StrCat("cublasLtMatmulDescSetAttribute(attribute ",
                             static_cast<int>(attribute), ")"));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SetAttribute(cublasLtMatmulPreference_t preference,
                          cublasLtMatmulPreferenceAttributes_t attribute,
                          const T& value) {
  if (const cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
          preference, attribute, &value, sizeof(T));
      status != CUBLAS_STATUS_SUCCESS) {
    return CublasStatus(
        status, absl::StrCat("cublasLtMatmulPreferenceSetAttribute(attribute ",
                             static_cast<int>(attribute), ")"));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SetAttribute(cublasLtMatrixLayout_t layout,
                          cublasLtMatrixLayoutAttribute_t attribute,
                          const T& value) {
  if (const cublasStatus_t status = cublasLtMatrixLayoutSetAttribute(
          layout, attribute, static_cast<const void*>(&value), sizeof(T));
      status != CUBLAS_STATUS_SUCCESS) {
    return CublasStatus(
        status, absl::StrCat("cublasLtMatrixLayoutSetAttribute(attribute ",
                             static_cast<int>(attribute), ")"));
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CUBLASLT_HANDLES_H_
