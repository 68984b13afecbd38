// What the choice of a GEMM algorithm may depend on, in cuBLASLt's terms.
//
// Column-major: D (m x n) = op_a(A) op_b(B). A row-major product D = a b is
// asked as D^T = b^T a^T, so m is our N, n is our M, A is our b and B our a.
// Types, operations, the compute type and modes are the numbers of
// cudaDataType_t, cublasOperation_t, cublasComputeType_t and
// cublasLtEpilogue_t.
//
// Scales: see cublasLtMatmulMatrixScale_t for the modes.
//
// The fields are plain integers because a plan file lists them by position.
#ifndef SCALEKEEPER_GEMM_MATMUL_PLAN_KEY_H_
#define SCALEKEEPER_GEMM_MATMUL_PLAN_KEY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace scalekeeper {

struct MatmulPlanKey {
  static constexpr size_t kFields = 18;
  using Fields = std::array<int64_t, kFields>;

  static constexpr int64_t kNoBias = -1;
  // Bits of `flags`.
  static constexpr int64_t kScaled = 1;  // A and B are codes with scales
  static constexpr int64_t kFastAccum = 2;
  static constexpr int64_t kAccumulate = 4;
  static constexpr int64_t kDeterministic = 8;
  static constexpr int64_t kQuantizedOut = 16;  // D scale and AMAX_D are given
  static constexpr int64_t kDeviceAlpha =
      32;  // alpha and beta are device words
  // The extents are those of a class of calls (MatmulExtents).
  static constexpr int64_t kVarying = 64;

  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldd = 0;
  int64_t op_a = 0, op_b = 0;
  int64_t a_type = 0, b_type = 0, c_type = 0, d_type = 0;
  int64_t bias_type = kNoBias;
  int64_t compute = 0;
  int64_t epilogue = 0;
  int64_t flags = 0;
  // cublasLtMatmulMatrixScale_t; 0 also where there are no scales.
  int64_t a_scale_mode = 0, b_scale_mode = 0;

  bool has(int64_t flag) const { return (flags & flag) != 0; }

  Fields ToFields() const {
    return {m,         n,       k,        lda,    ldb,          ldd,
            op_a,      op_b,    a_type,   b_type, c_type,       d_type,
            bias_type, compute, epilogue, flags,  a_scale_mode, b_scale_mode};
  }
  static MatmulPlanKey FromFields(const Fields& f) {
    return {f[0], f[1],  f[2],  f[3],  f[4],  f[5],  f[6],  f[7],  f[8],
            f[9], f[10], f[11], f[12], f[13], f[14], f[15], f[16], f[17]};
  }

  friend bool operator==(const MatmulPlanKey& a, const MatmulPlanKey& b) {
    return a.ToFields() == b.ToFields();
  }
  template <typename H>
  friend H AbslHashValue(H h, const MatmulPlanKey& key) {
    return H::combine(std::move(h), key.ToFields());
  }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_MATMUL_PLAN_KEY_H_
