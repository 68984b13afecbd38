// D = activation(op(a) op(b) + bias) or D += op(a) op(b) + bias, with quantized
// or plain operands.
//
// Like `matmul` everywhere: a is M x K after transa, b is K x N after transb,
// row-major; what is unusual is a named option. An operand is a view of high-
// precision values or a QuantizedTensor, in any combination; its scale_inv is
// applied. Row-wise data is read, or column-wise data where only that exists:
// for per-tensor scaling the result is the same, bit for bit.
//
// On the host any layout and any strides work. A result is the sum over k = 0,
// 1, ..., K-1 of exact products in double, times the scales, plus the bias,
// then the activation, all in double; it is rounded once into `out`. This is
// the reference that other backends are compared with.
//
// Threads: any number of calls at once, with different outputs. Work is queued
// on `stream`. The host keeps scratch memory per thread, so that calls of the
// same size allocate nothing after the first. `out` may overlap neither
// operands nor bias.
//
// Edge values: K = 0 is a sum of 0; M = 0 or N = 0 does nothing. NaN and
// infinity go through sums and activations as IEEE 754 says (relu keeps NaN).
//
// Errors (InvalidArgument, naming M, N, K and the rule): shapes that do not
// fit, E5M2 x E5M2 (no GPU multiplies them), an `out` that is not float32,
// bfloat16 or float16 or whose elements overlap, accumulate with an activation,
// a device that differs. Accumulating into bfloat16 or float16 is allowed.
// Unimplemented for a device or scaling that this build cannot multiply.
//
// Example:
//   MatmulOptions options;
//   options.transb = true;                          // y = x w^T
//   SK_RETURN_IF_ERROR(Matmul(x8, w8, y, options, stream));
//   Matmul(x8, w8, y, MatmulOptions(), stream);
//       // InvalidArgument: Matmul M=32 N=128 K=64: b is 128x64 after transb,
//       // want K x N = 64xN
#ifndef SCALEKEEPER_GEMM_MATMUL_H_
#define SCALEKEEPER_GEMM_MATMUL_H_

#include "absl/status/status.h"
#include "base/tensor_view.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

// kRelu: max(x, 0). kGelu: the tanh form, x/2 (1 + tanh(sqrt(2/pi) (x +
// 0.044715 x^3))) of Hendrycks and Gimpel, "Gaussian Error Linear Units"
// (2016): what cuBLASLt's GELU epilogue computes.
enum class Activation { kNone, kRelu, kGelu };

// Converts implicitly from what a Matmul can multiply. Borrows it.
class MatmulOperand {
 public:
  MatmulOperand(const QuantizedTensor& tensor)  // NOLINT: converts on purpose
      : quantized_(&tensor) {}
  MatmulOperand(ConstTensorView view) : view_(view) {}  // NOLINT
  MatmulOperand(TensorView view) : view_(view) {}       // NOLINT

  // Null for a plain view.
  const QuantizedTensor* quantized() const { return quantized_; }
  const ConstTensorView& view() const { return view_; }

 private:
  const QuantizedTensor* quantized_ = nullptr;
  ConstTensorView view_;
};

struct MatmulOptions {
  bool transa = false;
  bool transb = false;
  bool accumulate = false;  // D += instead of D =
  Activation activation = Activation::kNone;
  const ConstTensorView* bias = nullptr;  // 1 x N, added before the activation
  bool fast_accum = false;  // a permission; the host reference ignores it
};

// `out`: M x N, float32 / bfloat16 / float16, any non-overlapping strides.
absl::Status Matmul(const MatmulOperand& a, const MatmulOperand& b,
                    TensorView out, const MatmulOptions& options,
                    Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_MATMUL_H_
