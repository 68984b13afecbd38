// Products of a mixture of experts: one Matmul per expert over its share of the
// tokens, issued together.
//
// Tokens of one expert lie behind each other; `splits` says how many each has,
// on the host, and adds up to all of them. An expert without tokens is fine: it
// has no rows of an output, and its weight gradient is zero (or left as it is,
// when accumulating).
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
#ifndef SCALEKEEPER_GEMM_GROUPED_MATMUL_H_
#define SCALEKEEPER_GEMM_GROUPED_MATMUL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/tensor_view.h"
#include "gemm/matmul.h"

namespace scalekeeper {

// a: tokens x K after transa; b[e]: K x N after transb; out: tokens x N.
absl::Status GroupedMatmul(const MatmulOperand& a,
                           absl::Span<const MatmulOperand> b, TensorView out,
                           absl::Span<const int64_t> splits,
                           const MatmulOptions& options, Stream stream);

// a: M x tokens after transa; b: tokens x N after transb; out[e]: M x N, which
// must not overlap each other.
absl::Status GroupedMatmulWgrad(const MatmulOperand& a, const MatmulOperand& b,
                                absl::Span<const TensorView> out,
                                absl::Span<const int64_t> splits,
                                const MatmulOptions& options, Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_GROUPED_MATMUL_H_
