// A Matmul whose arguments have been checked: what a backend gets. Internal to
// this package.
#ifndef SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
#define SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_

#include <cstdint>
#include <optional>

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

struct MatmulProblem {
  MatmulInput a;                        // M x K
  MatmulInput b;                        // K x N
  TensorView out;                       // M x N
  std::optional<ConstTensorView> bias;  // 1 x N
  bool accumulate = false;
  Activation activation = Activation::kNone;
};

void MatmulHost(const MatmulProblem& problem);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
