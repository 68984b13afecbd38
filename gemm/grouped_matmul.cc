#include "gemm/grouped_matmul.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gemm/cublaslt_matmul.h"
#include "gemm/matmul_problem.h"
#include "quantizer/dequantize.h"
#include "quantizer/grouped_kernels.h"

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

// The problems of this call. Their memory is the thread's and used again by the
// next call; one that runs within this one has memory of its own.
class Problems {
 public:
  Problems() {
    problems_.swap(Kept());
    problems_.clear();
  }
  Problems(const Problems&) = delete;
  Problems& operator=(const Problems&) = delete;
  ~Problems() {
    if (problems_.capacity() > Kept().capacity()) problems_.swap(Kept());
  }

  void Add(const MatmulProblem& problem) { problems_.push_back(problem); }
  absl::Span<const MatmulProblem> all() const { return problems_; }

 private:
  static std::vector<MatmulProblem>& Kept() {
    thread_local std::vector<MatmulProblem> kept;
    return kept;
  }

  std::vector<MatmulProblem> problems_;
};

// `may_be_less`: rows behind the last expert's are padding.
absl::Status CheckSplits(absl::string_view call,
                         absl::Span<const int64_t> splits, size_t experts,
                         int64_t tokens, bool may_be_less) {
  if (splits.size() != experts) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, ": got ", splits.size(), " splits for ", experts, " experts"));
  }
  int64_t first = 0;
  for (size_t e = 0; e < experts; ++e) {
    if (splits[e] < 0 || splits[e] > tokens - first) {
      return absl::InvalidArgumentError(absl::StrCat(
          call, ": splits[", e, "]: got ", splits[e], ", want 0 to ",
          tokens - first, ": what is left of ", tokens, " tokens"));
    }
    first += splits[e];
  }
  if (first == tokens || may_be_less) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(call, ": splits add up to ",
                                                 first, ", want ", tokens,
                                                 ", the number of tokens"));
}

// Of a GroupedTensor: that its rows are tokens here, it has data, and is split
// so. Others are fine.
absl::Status CheckGrouped(absl::string_view call, absl::string_view what,
                          const GroupedOperand& operand, bool transpose,
                          bool wants_transpose,
                          absl::Span<const int64_t> splits) {
  if (operand.grouped() == nullptr) return absl::OkStatus();
  const GroupedTensor& tensor = *operand.grouped();
  const auto refuse = [&](absl::string_view message) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": ", what, ": got ", Describe(tensor), message));
  };
  if (transpose != wants_transpose) {
    return refuse(absl::StrCat(
        ", whose rows are the tokens, ", transpose ? "with" : "without",
        " trans", what, ", want it ", wants_transpose ? "with" : "without"));
  }
  const auto count = static_cast<size_t>(tensor.experts);
  const auto codes = static_cast<size_t>(tensor.rows * tensor.cols);
  if ((tensor.row_wise.size() < codes && tensor.column_wise.size() < codes) ||
      tensor.scale_inv.size() <
          count * kernels::kGroupedScaleStride * sizeof(float) ||
      tensor.offsets.size() < (count + 1) * sizeof(int64_t)) {
    return refuse(" without its data, want one that MakeEmpty has made");
  }
  if (tensor.experts < 0 || count != splits.size()) {
    return refuse(
        absl::StrCat(", want ", splits.size(), " experts, as splits"));
  }
  if (tensor.device.kind != DeviceKind::kHost) return absl::OkStatus();
  const int64_t* offsets = tensor.offsets.as<int64_t>();
  for (size_t e = 0; e < count; ++e) {
    if (splits[e] == offsets[e + 1] - offsets[e]) continue;
    return refuse(absl::StrCat(", quantized with ", offsets[e + 1] - offsets[e],
                               " rows of expert ", e, ", want splits[", e,
                               "] = ", splits[e], " of them"));
  }
  return absl::OkStatus();
}

// The tokens of expert `e`, `share`, of a GroupedTensor, as an input of the
// tensor's R x C: elements of other rows are not to be read.
MatmulInput GroupedInput(const GroupedTensor& tensor, bool wants_row_wise,
                         size_t e, const Share& share) {
  const auto codes = static_cast<size_t>(tensor.rows * tensor.cols);
  const bool row_wise =
      (wants_row_wise ? tensor.row_wise : tensor.column_wise).size() >= codes
          ? wants_row_wise
          : !wants_row_wise;
  MatmulInput input;
  ConstTensorView& values = input.values;
  values.dtype = DType::kUint8;
  values.rows = tensor.rows;
  values.cols = tensor.cols;
  values.device = tensor.device;
  if (row_wise) {
    values.data = tensor.row_wise.data();
    values.row_stride = tensor.cols;
    values.col_stride = 1;
  } else if (codes > 0) {
    // Row share.first begins at byte share.first * C; C x R_e from there on.
    values.data =
        tensor.column_wise.as<uint8_t>() + share.first * (tensor.cols - 1);
    values.row_stride = 1;
    values.col_stride = share.count;
  }
  input.format = tensor.format;
  input.scaling = tensor.scaling;
  input.grid = internal::OneScale(tensor.scale_inv.as<float>() +
                                  e * kernels::kGroupedScaleStride);
  return input;
}

// The operand that holds tokens, for expert `e`.
absl::StatusOr<MatmulInput> TokensOf(const GroupedOperand& operand,
                                     absl::string_view what, bool transpose,
                                     bool wants_row_wise, size_t e,
                                     const Share& share) {
  if (operand.grouped() == nullptr) {
    return internal::MakeInput(operand.operand(), what, transpose,
                               wants_row_wise);
  }
  const MatmulInput input =
      GroupedInput(*operand.grouped(), wants_row_wise, e, share);
  return transpose ? input.Transposed() : input;
}

int64_t TokenCount(const GroupedOperand& operand, bool transpose) {
  if (operand.grouped() != nullptr) return operand.grouped()->rows;
  const MatmulOperand& plain = operand.operand();
  const QuantizedTensor* const q = plain.quantized();
  const int64_t rows = q != nullptr ? q->rows : plain.view().rows;
  const int64_t cols = q != nullptr ? q->cols : plain.view().cols;
  return transpose ? cols : rows;
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
absl::Status MultiplyAll(absl::Span<const MatmulProblem> problems,
                         Device device, Stream stream) {
  return device.kind == DeviceKind::kCuda
             ? internal::MatmulCuda(problems, stream)
             : internal::MatmulHost(problems);
}

}  // namespace

absl::Status GroupedMatmul(const GroupedOperand& a,
                           absl::Span<const MatmulOperand> b, TensorView out,
                           absl::Span<const int64_t> splits,
                           const MatmulOptions& options, Stream stream) {
  constexpr absl::string_view kCall = "GroupedMatmul";
  SK_RETURN_IF_ERROR(CheckHighPrecision(out, "out"));
  SK_RETURN_IF_ERROR(ValidateOutputView(out, "out"));
  SK_RETURN_IF_ERROR(
      CheckSplits(kCall, splits, b.size(), out.rows, a.grouped() != nullptr));
  SK_RETURN_IF_ERROR(CheckGrouped(kCall, "a", a, options.transa,
                                  /*wants_transpose=*/false, splits));
  Problems problems;
  Share share;
  for (size_t e = 0; e < splits.size(); ++e, share.first += share.count) {
    share.count = splits[e];
    SK_ASSIGN_OR_RETURN(
        const MatmulInput tokens,
        TokensOf(a, "a", options.transa, !options.transa, e, share));
    SK_ASSIGN_OR_RETURN(
        const MatmulInput weight,
        internal::MakeInput(b[e], "b", options.transb, options.transb));
    MatmulProblem problem;
    problem.out = out;
    SK_RETURN_IF_ERROR(internal::FillIn(tokens, weight, options, &problem));
    SK_RETURN_IF_ERROR(
        CheckBlocks(kCall, "a", problem.a.Transposed(), e, share));
    if (share.count == 0) continue;
    problem.varying = Varying::kRows;
    problem.a =
        problem.a.Part(share.first, 0, share.count, problem.a.values.cols);
    problem.out = RowsOf(out, share.first, share.count);
    problems.Add(problem);
  }
  return MultiplyAll(problems.all(), out.device, stream);
}

absl::Status GroupedMatmulWgrad(const GroupedOperand& a,
                                const GroupedOperand& b,
                                absl::Span<const TensorView> out,
                                absl::Span<const int64_t> splits,
                                const MatmulOptions& options, Stream stream) {
  constexpr absl::string_view kCall = "GroupedMatmulWgrad";
  if (out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCall, ": got no outputs, want one per expert"));
  }
  SK_RETURN_IF_ERROR(
      CheckSplits(kCall, splits, out.size(), TokenCount(b, options.transb),
                  a.grouped() != nullptr || b.grouped() != nullptr));
  SK_RETURN_IF_ERROR(CheckGrouped(kCall, "a", a, options.transa,
                                  /*wants_transpose=*/true, splits));
  SK_RETURN_IF_ERROR(CheckGrouped(kCall, "b", b, options.transb,
                                  /*wants_transpose=*/false, splits));
  Problems problems;
  Share share;
  for (size_t e = 0; e < out.size(); ++e, share.first += share.count) {
    share.count = splits[e];
    SK_RETURN_IF_ERROR(
        CheckHighPrecision(out[e], absl::StrCat("out[", e, "]")));
    SK_RETURN_IF_ERROR(
        ValidateOutputView(out[e], absl::StrCat("out[", e, "]")));
    if (out[e].device != out[0].device) {
      return absl::InvalidArgumentError(
          absl::StrCat(kCall, ": out[", e, "] is on ", Name(out[e].device),
                       ", want ", Name(out[0].device), " as out[0]"));
    }
    SK_ASSIGN_OR_RETURN(
        const MatmulInput left,
        TokensOf(a, "a", options.transa, !options.transa, e, share));
    SK_ASSIGN_OR_RETURN(
        const MatmulInput right,
        TokensOf(b, "b", options.transb, options.transb, e, share));
    MatmulProblem problem;
    problem.out = out[e];
    SK_RETURN_IF_ERROR(internal::FillIn(left, right, options, &problem));
    SK_RETURN_IF_ERROR(CheckBlocks(kCall, "a", problem.a, e, share));
    SK_RETURN_IF_ERROR(
        CheckBlocks(kCall, "b", problem.b.Transposed(), e, share));
    problem.varying = Varying::kDepth;
    problem.a =
        problem.a.Part(0, share.first, problem.a.values.rows, share.count);
    problem.b =
        problem.b.Part(share.first, 0, share.count, problem.b.values.cols);
    problems.Add(problem);
  }
  return MultiplyAll(problems.all(), out[0].device, stream);
}

}  // namespace scalekeeper
