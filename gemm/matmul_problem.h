// A Matmul whose arguments have been checked: what a backend gets. Internal to
// this package.
#ifndef SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
#define SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
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

// Reads the copy of a quantized operand in which K runs fastest, if there is
// one: scales of a part of a row must run along K, and GPUs multiply codes only
// so. `wants_row_wise`: that is the row-wise one.
absl::StatusOr<MatmulInput> MakeInput(const MatmulOperand& operand,
                                      absl::string_view what, bool transpose,
                                      bool wants_row_wise);

// What all of a tensor is multiplied with, in one place of the device.
GridView OneScale(const float* scale_inv);

// What is checked of every Matmul with an output of values, and of the options
// (gemm/matmul.cc); everything but `out` is filled in.
absl::Status FillIn(const MatmulInput& a, const MatmulInput& b,
                    const MatmulOptions& options, MatmulProblem* problem);

// One after the other. Fails where a custom operand's maker does.
absl::Status MatmulHost(absl::Span<const MatmulProblem> problems);

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_MATMUL_PROBLEM_H_
