// D = activation(op(a) op(b) + bias) [+ D], with quantized or plain operands.
//
// Like `matmul` everywhere: a is M x K after transa, b is K x N after transb,
// row-major; what is unusual is a named option. An operand is a view of high-
// precision values or a QuantizedTensor (its scales are applied). On the host
// any layout works, sums are kept in double and rounded once: this is the
// reference that other backends are compared with.
//
// K = 0 gives activation(bias) (or leaves the accumulator). Errors name M, N, K
// and the rule: shapes that do not fit, E5M2 x E5M2, an accumulate with a
// float16 / bfloat16 output is allowed, with an activation it is refused.
//
// Example:
//   MatmulOptions options;
//   options.transb = true;                          // y = x w^T
//   SK_RETURN_IF_ERROR(Matmul(x8, w8, y, options, stream));
#ifndef SCALEKEEPER_GEMM_MATMUL_H_
#define SCALEKEEPER_GEMM_MATMUL_H_

#include "absl/status/status.h"
#include "base/tensor_view.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

enum class Activation { kNone, kRelu, kGelu };

// Converts implicitly from what a Matmul can multiply. Borrows it.
class MatmulOperand {
 public:
  MatmulOperand(const QuantizedTensor& tensor)  // NOLINT: converts on purpose
      : quantized_(&tensor) {}
  MatmulOperand(ConstTensorView view) : view_(view) {}  // NOLINT
  MatmulOperand(TensorView view) : view_(view) {}       // NOLINT

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
