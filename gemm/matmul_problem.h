// A Matmul whose arguments have been checked: what a backend gets. Internal to
// this package.
#ifndef SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
#define SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "amax/slot_view.h"
#include "base/tensor_view.h"
#include "gemm/matmul.h"
#include "gemm/matmul_input.h"
#include "numerics/format.h"

namespace scalekeeper::internal {

// A product into codes.
struct CodesOutput {
  Format format = Format::kE4M3;
  SlotView slot;
  float* row_wise_scale_inv = nullptr;
  // The transpose, N x M without gaps; null when there is none.
  uint8_t* column_wise_codes = nullptr;
  float* column_wise_scale_inv = nullptr;
};

// Which extent differs from call to call: plans are then shared by calls of
// about the same size.
enum class Varying { kNone, kRows, kDepth };

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
  bool emulate = false;
  Varying varying = Varying::kNone;
};

// "Matmul M=32 N=128 K=64", for errors.
inline std::string Name(const MatmulProblem& p) {
  return absl::StrCat("Matmul M=", p.out.rows, " N=", p.out.cols,
                      " K=", p.a.values.cols);
}

// "mxfp8 E4M3", or of plain values "bfloat16".
inline std::string TypeName(const MatmulInput& input) {
  if (!input.is_codes()) return std::string(Name(input.values.dtype));
  if (input.custom != nullptr) return std::string(Name(input.scaling));
  return absl::StrCat(Name(input.scaling), " ", Name(input.format));
}

// What is checked of every Matmul with an output of values, and of the options
// (gemm/matmul.cc); everything but `out` is filled in.
absl::Status FillIn(const MatmulOperand& a, const MatmulOperand& b,
                    const MatmulOptions& options, MatmulProblem* problem);

// Fails where a custom operand's maker does.
absl::Status MatmulHost(const MatmulProblem& problem);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
