// A Matmul whose arguments have been checked: what a backend gets. Internal to
// this package.
#ifndef SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
#define SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "amax/slot_view.h"
#include "base/tensor_view.h"
#include "gemm/matmul.h"
#include "numerics/format.h"

namespace scalekeeper::internal {

// One operand after its transposition. `values` has dtype kUint8 when they are
// codes of `format`, to be multiplied with *scale_inv.
struct MatmulInput {
  ConstTensorView values;
  Format format = Format::kE4M3;
  const float* scale_inv = nullptr;  // null: 1
};

// A product into codes.
struct CodesOutput {
  Format format = Format::kE4M3;
  SlotView slot;
  float* row_wise_scale_inv = nullptr;
  // The transpose, N x M without gaps; null when there is none.
  uint8_t* column_wise_codes = nullptr;
  float* column_wise_scale_inv = nullptr;
};

struct MatmulProblem {
  MatmulInput a;                        // M x K
  MatmulInput b;                        // K x N
  TensorView out;                       // M x N; kUint8 for codes, without gaps
  std::optional<CodesOutput> codes;     // of `out`
  std::optional<ConstTensorView> bias;  // 1 x N
  bool accumulate = false;
  Activation activation = Activation::kNone;
  bool fast_accum = false;
  bool deterministic = false;
};

// "Matmul M=32 N=128 K=64", for errors.
inline std::string Name(const MatmulProblem& p) {
  return absl::StrCat("Matmul M=", p.out.rows, " N=", p.out.cols,
                      " K=", p.a.values.cols);
}

void MatmulHost(const MatmulProblem& problem);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
