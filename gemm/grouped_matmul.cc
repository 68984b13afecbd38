#include "gemm/grouped_matmul.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gemm/cublaslt_matmul.h"
#include "gemm/matmul_problem.h"
#include "quantizer/dequantize.h"

namespace scalekeeper {
namespace {

using internal::MatmulInput;
using internal::MatmulProblem;
using internal::Varying;

// One expert's tokens.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
};

absl::StatusOr<std::vector<Share>> SharesOf(absl::string_view call,
                                            absl::Span<const int64_t> splits,
                                            size_t experts, int64_t tokens) {
  if (splits.size() != experts) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, ": got ", splits.size(), " splits for ", experts, " experts"));
  }
  std::vector<Share> shares;
  int64_t first = 0;
  for (size_t e = 0; e < experts; ++e) {
    if (splits[e] < 0 || splits[e] > tokens - first) {
      return absl::InvalidArgumentError(absl::StrCat(
          call, ": splits[", e, "]: got ", splits[e], ", want 0 to ",
          tokens - first, ": what is left of ", tokens, " tokens"));
    }
    shares.push_back({first, splits[e]});
    first += splits[e];
  }
  if (first != tokens) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": splits add up to ",
                                                   first, ", want ", tokens,
                                                   ", the number of tokens"));
  }
  return shares;
}

// `input` has tokens along its columns.
absl::Status CheckBlocks(absl::string_view call, absl::string_view what,
                         const MatmulInput& input, size_t expert,
                         const Share& share) {
  const bool has_blocks = input.scaling == Scaling::kBlock ||
                          input.scaling == Scaling::kMxfp8 ||
                          input.scaling == Scaling::kNvfp4;
  const int64_t block = has_blocks ? input.grid.col_block() : 1;
  if (share.count == 0 || share.first % block == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      call, ": expert ", expert, " begins at token ", share.first, " of ", what,
      " (", internal::TypeName(input), "), want a multiple of the ", block,
      " tokens that share a scale"));
}

TensorView RowsOf(TensorView view, int64_t first, int64_t count) {
  if (view.data != nullptr) {
    view.data =
        static_cast<char*>(view.data) +
        first * view.row_stride * static_cast<int64_t>(SizeOf(view.dtype));
  }
  view.rows = count;
  return view;
}

// The one switch on the device kind.
absl::Status MultiplyAll(const std::vector<MatmulProblem>& problems,
                         Device device, Stream stream) {
  if (device.kind == DeviceKind::kCuda) {
    return internal::MatmulGroupCuda(problems, stream);
  }
  for (const MatmulProblem& problem : problems) {
    SK_RETURN_IF_ERROR(internal::MatmulHost(problem));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GroupedMatmul(const MatmulOperand& a,
                           absl::Span<const MatmulOperand> b, TensorView out,
                           absl::Span<const int64_t> splits,
                           const MatmulOptions& options, Stream stream) {
  constexpr absl::string_view kCall = "GroupedMatmul";
  SK_RETURN_IF_ERROR(CheckHighPrecision(out, "out"));
  SK_RETURN_IF_ERROR(ValidateOutputView(out, "out"));
  SK_ASSIGN_OR_RETURN(const std::vector<Share> shares,
                      SharesOf(kCall, splits, b.size(), out.rows));
  std::vector<MatmulProblem> problems;
  for (size_t e = 0; e < shares.size(); ++e) {
    const Share& share = shares[e];
    MatmulProblem problem;
    problem.out = out;
    SK_RETURN_IF_ERROR(internal::FillIn(a, b[e], options, &problem));
    SK_RETURN_IF_ERROR(
        CheckBlocks(kCall, "a", problem.a.Transposed(), e, share));
    if (share.count == 0) continue;
    problem.varying = Varying::kRows;
    problem.a =
        problem.a.Part(share.first, 0, share.count, problem.a.values.cols);
    problem.out = RowsOf(out, share.first, share.count);
    problems.push_back(problem);
  }
  return MultiplyAll(problems, out.device, stream);
}

absl::Status GroupedMatmulWgrad(const MatmulOperand& a, const MatmulOperand& b,
                                absl::Span<const TensorView> out,
                                absl::Span<const int64_t> splits,
                                const MatmulOptions& options, Stream stream) {
  constexpr absl::string_view kCall = "GroupedMatmulWgrad";
  if (out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCall, ": got no outputs, want one per expert"));
  }
  std::vector<MatmulProblem> problems;
  std::vector<Share> shares;
  for (size_t e = 0; e < out.size(); ++e) {
    SK_RETURN_IF_ERROR(
        CheckHighPrecision(out[e], absl::StrCat("out[", e, "]")));
    SK_RETURN_IF_ERROR(
        ValidateOutputView(out[e], absl::StrCat("out[", e, "]")));
    MatmulProblem problem;
    problem.out = out[e];
    SK_RETURN_IF_ERROR(internal::FillIn(a, b, options, &problem));
    if (problem.out.device != out[0].device) {
      return absl::InvalidArgumentError(
          absl::StrCat(kCall, ": out[", e, "] is on ", Name(problem.out.device),
                       ", want ", Name(out[0].device), " as out[0]"));
    }
    if (e == 0) {
      SK_ASSIGN_OR_RETURN(
          shares, SharesOf(kCall, splits, out.size(), problem.a.values.cols));
    }
    const Share& share = shares[e];
    SK_RETURN_IF_ERROR(CheckBlocks(kCall, "a", problem.a, e, share));
    SK_RETURN_IF_ERROR(
        CheckBlocks(kCall, "b", problem.b.Transposed(), e, share));
    problem.varying = Varying::kDepth;
    problem.a =
        problem.a.Part(0, share.first, problem.a.values.rows, share.count);
    problem.b =
        problem.b.Part(share.first, 0, share.count, problem.b.values.cols);
    problems.push_back(problem);
  }
  return MultiplyAll(problems, out[0].device, stream);
}

}  // namespace scalekeeper
