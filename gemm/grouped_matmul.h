// Products of a mixture of experts: one Matmul per expert over its share of the
// tokens, issued together.
//
// Tokens of one expert lie behind each other; `splits` says how many each has,
// on the host, and adds up to all of them. An expert without tokens is fine: it
// has no rows of an output, and its weight gradient is zero (or left as it is,
// when accumulating).
//
// The tokens may be a GroupedTensor, whose experts have a scale each; its rows
// are the tokens: `a` is not transposed in GroupedMatmul and is in
// GroupedMatmulWgrad, where `b` is not. `splits` are the counts that it was
// quantized with (checked on the host; on CUDA only the device knows them).
// Rows behind the last expert's are padding, which nothing reads or writes: the
// splits may add up to less than all rows.
//
//   GroupedMatmul        out[rows of e] = op(a)[rows of e] op(b[e])
//   GroupedMatmulWgrad   out[e] = op(a)[:, tokens of e] op(b)[tokens of e, :]
//
// Operands, options, results, errors and threads are those of gemm/matmul.h,
// each expert's product being one Matmul; on CUDA the products run at once
// where they do not fill the chip, on streams that the library keeps beside
// `stream` (up to three, with a workspace of 32 MiB each; the first call of a
// stream makes them), forked from it and joined to it, also in a capture.
// Algorithms are chosen for a class of sizes (the next power of two of tokens),
// so that counts may change from step to step without a new choice. Errors of
// the arguments come before anything is queued.
//
// An operand that is split inside its rows or blocks of scales: an expert must
// begin at a whole block (32 tokens for mxfp8 along the tokens, 16 for nvfp4,
// 128 for block; 1 for scales across the tokens). InvalidArgument naming the
// expert else; the last block of an expert may be shorter.
//
// Example:
//   std::vector<MatmulOperand> w = {w0, w1, w2};
//   options.transb = true;
//   SK_RETURN_IF_ERROR(GroupedMatmul(x8, w, y, {5, 0, 3}, options, stream));
//   GroupedMatmul(x8, w, y, {5, 3}, options, stream);
//       // InvalidArgument: GroupedMatmul: got 2 splits for 3 experts
//   GroupedMatmulWgrad(dy8, x8, dw, splits, wgrad_options, stream);
//       // dy8, x8: GroupedTensors with column-wise data
#ifndef SCALEKEEPER_GEMM_GROUPED_MATMUL_H_
#define SCALEKEEPER_GEMM_GROUPED_MATMUL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/tensor_view.h"
#include "gemm/matmul.h"
#include "quantizer/grouped_tensor.h"

namespace scalekeeper {

// Converts implicitly from what can be split by its tokens. Borrows it.
class GroupedOperand {
 public:
  GroupedOperand(const GroupedTensor& tensor)  // NOLINT: converts on purpose
      : grouped_(&tensor) {}
  GroupedOperand(const MatmulOperand& operand)  // NOLINT
      : operand_(operand) {}
  GroupedOperand(const QuantizedTensor& tensor)  // NOLINT
      : operand_(tensor) {}
  GroupedOperand(ConstTensorView view) : operand_(view) {}  // NOLINT
  GroupedOperand(TensorView view) : operand_(view) {}       // NOLINT

  // Null for any other operand.
  const GroupedTensor* grouped() const { return grouped_; }
  const MatmulOperand& operand() const { return operand_; }

 private:
  const GroupedTensor* grouped_ = nullptr;
  MatmulOperand operand_ = ConstTensorView();
};

// a: tokens x K after transa; b[e]: K x N after transb; out: tokens x N.
absl::Status GroupedMatmul(const GroupedOperand& a,
                           absl::Span<const MatmulOperand> b, TensorView out,
                           absl::Span<const int64_t> splits,
                           const MatmulOptions& options, Stream stream);

// a: M x tokens after transa; b: tokens x N after transb; out[e]: M x N, which
// must not overlap each other.
absl::Status GroupedMatmulWgrad(const GroupedOperand& a,
                                const GroupedOperand& b,
                                absl::Span<const TensorView> out,
                                absl::Span<const int64_t> splits,
                                const MatmulOptions& options, Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_GROUPED_MATMUL_H_
