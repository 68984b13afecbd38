// D = activation(op(a) op(b) + bias) or D += op(a) op(b) + bias, with quantized
// or plain operands.
//
// Like `matmul` everywhere: a is M x K after transa, b is K x N after transb,
// row-major; what is unusual is a named option. An operand is a view of high-
// precision values or a QuantizedTensor, in any combination; its scales are
// applied.
//
// Which copy of a QuantizedTensor is read. The one along whose rows K runs: the
// row-wise data of `a`, the column-wise data of a transposed `a` and of `b`,
// the row-wise data of a transposed `b`. Where it is missing, per-tensor scales
// and square blocks (128x128, 32x32, 16x16) are read from the other copy, to
// the same bits; scales of whole rows and of 1 x B blocks cannot be:
// InvalidArgument naming the usage. Data that were Hadamard-transformed along K
// meet only data that were too. Custom tensors are read by their Dequantizer,
// all of one at a time (float32 on the host, bfloat16 on CUDA).
//
// On the host any layout, any strides and any mixture of scalings work. A value
// is code * scale_inv (numerics.md: scale_inv is a float32, the product exact
// in double; per-tensor scales multiply the sum instead). A result is the sum
// over k = 0, 1, ..., K-1 of products in double, plus the bias, then the
// activation, all in double; it is rounded once into `out`. This is the
// reference that other backends are compared with.
//
// On CUDA (cuBLASLt) sums are kept in float32, of TF32 products where the
// operands are float32. What a chip multiplies natively:
//   plain x plain of one dtype                             every chip
//   delayed, current in any mixture                        8.9 and newer
//   delayed, current, rowwise, block in any mixture        9.0
//   mxfp8 x mxfp8; nvfp4 x nvfp4                           10.0 and newer (not
//                                                          run on one so far)
// (recipe/gemm_capability.h; rowwise without block as vectors of scales;
// anything with block as 1x128 blocks, a 128x128 operand as such once.) Else
// FailedPrecondition naming the chip, those that do, and `emulate`. With
// `emulate` the operands are dequantized, in tiles of at most 64 MiB, into
// bfloat16 products with float32 sums:
//   |D - reference| <= ((K + 4) * 2^-23 + e) * sum_k |a_ik b_kj|, before
//   rounding
// into `out`, where e is 0 for per-tensor, rowwise, mxfp8, nvfp4 and bfloat16
// operands, whose values without their tensor or row scale are bfloat16 (down
// to 2^-133), and 2^-8 per operand of another kind.
//
// Any layout, stride, alignment and size works: what cuBLASLt does not take
// (codes in which K does not run fastest, K not a multiple of 16, for mxfp8 and
// nvfp4 of 32, strides or pointers that are not multiples of 16 bytes, scales
// that are not in 128x4 tiles, ...) is copied, transposed or padded with zeros
// in memory of the library's own, to the same result; a bias, activation or
// dtype that it does not take is applied by a kernel after it. The first call
// of a shape chooses an algorithm by timing (random operands of its own; see
// gemm/matmul_plans.h to save the choice), and the first call of a stream
// allocates: both wait, so call once before capturing a graph. Inside a capture
// the first answer that cuBLASLt takes is used, untimed. Later calls only
// enqueue. Memory is checked to be on the device that a view names only in a
// shape's first call.
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
// Unimplemented for a device that this build cannot multiply on.
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
#include "amax/slot_view.h"
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
  // A permission: CUDA computes what the chip does not multiply natively in
  // bfloat16 (above). A recipe's `emulate`.
  bool emulate = false;
  // CUDA: the same bits on every run, rank and restart of the same chip and
  // cuBLASLt: the algorithm is not chosen by timing, and partial sums are
  // added in a fixed order. The host is always so.
  bool deterministic = false;
};

// `out`: M x N, float32 / bfloat16 / float16, any non-overlapping strides.
absl::Status Matmul(const MatmulOperand& a, const MatmulOperand& b,
                    TensorView out, const MatmulOptions& options,
                    Stream stream);

// codes of out = encode(D * *slot.scale), for D as above in float32 (not
// accumulated): an FP8 output without a pass of its own. `out`: M x N,
// kDelayed, E4M3 or E5M2, with row-wise data; column-wise data are its
// transpose. Its scale_inv becomes *slot.scale_inv, and *slot.amax takes in max
// |D|, NaN included, as a Quantize of D would do.
//
// The scale is the slot's also while slot.measure is set: codes are written
// before all of D is known. InvalidArgument for other tensors, a null pointer
// in the slot, and `accumulate`.
absl::Status MatmulQuantized(const MatmulOperand& a, const MatmulOperand& b,
                             QuantizedTensor* out, const SlotView& slot,
                             const MatmulOptions& options, Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_MATMUL_H_
