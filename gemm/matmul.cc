// Checks the arguments of a Matmul.
#include "gemm/matmul.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gemm/cublaslt_matmul.h"
#include "gemm/matmul_problem.h"
#include "quantizer/dequantize.h"

namespace scalekeeper {
namespace {

using internal::MatmulInput;
using internal::MatmulProblem;

// Block extents that no tensor exceeds.
constexpr int64_t kWholeTensor = int64_t{1} << 48;

// True when a copy serves products along its rows as well as along its columns:
// its scales are the same either way. (1 x B blocks and whole rows are not.)
bool IsTransposable(const QuantizedTensor& tensor, const QuantizedData& data) {
  switch (tensor.scaling) {
    case Scaling::kRowwise:
      return false;
    case Scaling::kBlock:
    case Scaling::kMxfp8:
    case Scaling::kNvfp4:
      return data.scales.block_rows > 1;
    default:
      return true;
  }
}

// One use as an input of its tensor's R x C.
MatmulInput InputOf(const QuantizedTensor& tensor, bool row_wise) {
  const QuantizedData& data = row_wise ? *tensor.row_wise : *tensor.column_wise;
  MatmulInput input;
  input.values = ConstTensorView(BasicTensorView<const void*>::Contiguous(
      data.codes.data(), tensor.code_dtype(),
      row_wise ? tensor.rows : tensor.cols,
      row_wise ? tensor.cols : tensor.rows, tensor.device));
  if (tensor.format == Format::kE2M1 &&
      tensor.scaling != Scaling::kHighPrecision) {  // rows of whole bytes
    input.values.row_stride = (input.values.row_stride + 1) / 2 * 2;
  }
  if (!row_wise) input.values = ConstTensorView(input.values.Transposed());
  input.format = tensor.format;
  input.scaling = tensor.scaling;
  input.hadamard = data.hadamard;
  input.grid.scales = data.scales;
  input.grid.is_transposed = !row_wise;
  switch (tensor.scaling) {
    case Scaling::kHighPrecision:
      break;
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      input.grid.scales = internal::OneScale(data.scale_inv.as<float>()).scales;
      break;
    case Scaling::kRowwise:
    case Scaling::kBlock:
    case Scaling::kMxfp8:
    case Scaling::kNvfp4:
      break;
    case Scaling::kCustom:
      input.custom = &tensor;
      input.values = ConstTensorView(BasicTensorView<const void*>::Contiguous(
          data.codes.data(), DType::kUint8, tensor.rows, tensor.cols,
          tensor.device));
      input.grid.is_transposed = false;
      input.hadamard = false;
      break;
  }
  return input;
}

std::string Shape(const ConstTensorView& view) {
  return absl::StrCat(view.rows, "x", view.cols);
}

// "Matmul M=32 N=128 K=64: " and the rest.
absl::Status Refuse(const MatmulProblem& p, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(Name(p), ": ", message));
}

absl::Status CheckShapes(const MatmulProblem& p) {
  const ConstTensorView& a = p.a.values;
  const ConstTensorView& b = p.b.values;
  if (a.cols != b.rows) {
    return Refuse(p, absl::StrCat("a is ", Shape(a), " after transa and b is ",
                                  Shape(b), " after transb: K does not agree"));
  }
  if (a.rows != p.out.rows || b.cols != p.out.cols) {
    return Refuse(p, absl::StrCat("out is ", Shape(p.out),
                                  ", want M x N = ", a.rows, "x", b.cols));
  }
  if (p.bias && (p.bias->rows != 1 || p.bias->cols != p.out.cols)) {
    return Refuse(p, absl::StrCat("bias is ", Shape(*p.bias),
                                  ", want 1 x N = 1x", p.out.cols));
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const MatmulProblem& p) {
  const auto is_e5m2 = [](const MatmulInput& input) {
    return input.is_codes() && input.custom == nullptr &&
           input.format == Format::kE5M2;
  };
  if (is_e5m2(p.a) && is_e5m2(p.b)) {
    return Refuse(p, "got E5M2 x E5M2, want at most one E5M2 operand");
  }
  if (p.a.hadamard != p.b.hadamard) {
    return Refuse(p,
                  absl::StrCat(p.a.hadamard ? "a" : "b",
                               " is Hadamard-transformed along K and ",
                               p.a.hadamard ? "b" : "a",
                               " is not: want both transformed, or neither"));
  }
  if (p.accumulate && p.activation != Activation::kNone) {
    return Refuse(p,
                  "accumulate with an activation: the activation of a "
                  "partial sum has no meaning");
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const MatmulProblem& p, const ConstTensorView& view,
                         absl::string_view what) {
  if (view.device == p.out.device) return absl::OkStatus();
  return Refuse(p, absl::StrCat(what, " is on ", Name(view.device),
                                ", want out's device ", Name(p.out.device)));
}

}  // namespace

internal::GridView internal::OneScale(const float* scale_inv) {
  GridView grid;
  BlockScales& scales = grid.scales;
  scales.data = const_cast<float*>(scale_inv);  // only read
  scales.rows = scales.cols = 1;
  scales.block_rows = scales.block_cols = kWholeTensor;
  return grid;
}

absl::StatusOr<MatmulInput> internal::MakeInput(const MatmulOperand& operand,
                                                absl::string_view what,
                                                bool transpose,
                                                bool wants_row_wise) {
  MatmulInput input;
  if (operand.quantized() == nullptr) {
    input.values = operand.view();
    SK_RETURN_IF_ERROR(CheckHighPrecision(input.values, what));
    SK_RETURN_IF_ERROR(ValidateView(input.values, what));
  } else {
    const QuantizedTensor& tensor = *operand.quantized();
    SK_RETURN_IF_ERROR(ValidateTensor(tensor, what));
    const bool has_wanted = wants_row_wise ? tensor.row_wise.has_value()
                                           : tensor.column_wise.has_value();
    const bool row_wise = wants_row_wise == has_wanted;
    if (!has_wanted &&
        !IsTransposable(tensor,
                        row_wise ? *tensor.row_wise : *tensor.column_wise)) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": got ", Describe(tensor), ", want ",
          wants_row_wise ? "row-wise" : "column-wise", " data (usage ",
          wants_row_wise ? "row_wise" : "column_wise",
          "): this product contracts ", what, "'s ",
          wants_row_wise ? "columns" : "rows",
          ", and the scales must run along them"));
    }
    input = InputOf(tensor, row_wise);
  }
  return transpose ? input.Transposed() : input;
}

absl::Status internal::FillIn(const MatmulInput& a, const MatmulInput& b,
                              const MatmulOptions& options,
                              MatmulProblem* problem) {
  problem->a = a;
  problem->b = b;
  if (options.bias != nullptr) {
    SK_RETURN_IF_ERROR(CheckHighPrecision(*options.bias, "bias"));
    SK_RETURN_IF_ERROR(ValidateView(*options.bias, "bias"));
    problem->bias = *options.bias;
    SK_RETURN_IF_ERROR(CheckDevice(*problem, *options.bias, "bias"));
  }
  problem->accumulate = options.accumulate;
  problem->activation = options.activation;
  problem->fast_accum = options.fast_accum;
  problem->deterministic = options.deterministic;
  problem->emulate = options.emulate;
  SK_RETURN_IF_ERROR(CheckDevice(*problem, problem->a.values, "a"));
  SK_RETURN_IF_ERROR(CheckDevice(*problem, problem->b.values, "b"));
  SK_RETURN_IF_ERROR(CheckShapes(*problem));
  return CheckTypes(*problem);
}

namespace {

// FillIn for operands of one product.
absl::Status FillInOperands(const MatmulOperand& a, const MatmulOperand& b,
                            const MatmulOptions& options,
                            MatmulProblem* problem) {
  SK_ASSIGN_OR_RETURN(const MatmulInput input_a,
                      internal::MakeInput(a, "a", options.transa,
                                          /*wants_row_wise=*/!options.transa));
  SK_ASSIGN_OR_RETURN(const MatmulInput input_b,
                      internal::MakeInput(b, "b", options.transb,
                                          /*wants_row_wise=*/options.transb));
  return internal::FillIn(input_a, input_b, options, problem);
}

// The one switch on the device kind.
absl::Status Multiply(const MatmulProblem& problem, Stream stream) {
  switch (problem.out.device.kind) {
    case DeviceKind::kHost:
      return internal::MatmulHost({&problem, 1});
    case DeviceKind::kCuda:
      break;
  }
  return internal::MatmulCuda({&problem, 1}, stream);
}

absl::Status CheckCodesOutput(const QuantizedTensor& out, const SlotView& slot,
                              const MatmulOptions& options) {
  const auto refuse = [](absl::string_view message) {
    return absl::InvalidArgumentError(
        absl::StrCat("MatmulQuantized: ", message));
  };
  if (out.scaling != Scaling::kDelayed ||
      (out.format != Format::kE4M3 && out.format != Format::kE5M2)) {
    return refuse(absl::StrCat(
        "out: got ", Describe(out),
        ", want delayed scaling in E4M3 or E5M2: the scale must be known "
        "before the values are"));
  }
  if (!out.row_wise) {
    return refuse("out: got a tensor without row-wise data");
  }
  if (slot.amax == nullptr || slot.scale == nullptr ||
      slot.scale_inv == nullptr) {
    return refuse("slot: got a null pointer, want amax, scale and scale_inv");
  }
  if (options.accumulate) {
    return refuse(
        "accumulate: an 8-bit output cannot accumulate, want float32, "
        "bfloat16 or float16 (Matmul)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Matmul(const MatmulOperand& a, const MatmulOperand& b,
                    TensorView out, const MatmulOptions& options,
                    Stream stream) {
  MatmulProblem problem;
  SK_RETURN_IF_ERROR(CheckHighPrecision(out, "out"));
  SK_RETURN_IF_ERROR(ValidateOutputView(out, "out"));
  problem.out = out;
  SK_RETURN_IF_ERROR(FillInOperands(a, b, options, &problem));
  return Multiply(problem, stream);
}

absl::Status MatmulQuantized(const MatmulOperand& a, const MatmulOperand& b,
                             QuantizedTensor* out, const SlotView& slot,
                             const MatmulOptions& options, Stream stream) {
  if (out == nullptr) {
    return absl::InvalidArgumentError(
        "MatmulQuantized: out: got a null pointer, want a tensor of MakeEmpty");
  }
  SK_RETURN_IF_ERROR(ValidateTensor(*out, "out"));
  SK_RETURN_IF_ERROR(CheckCodesOutput(*out, slot, options));
  MatmulProblem problem;
  problem.out =
      TensorView::Contiguous(out->row_wise->codes.data(), DType::kUint8,
                             out->rows, out->cols, out->device);
  internal::CodesOutput codes;
  codes.format = out->format;
  codes.slot = slot;
  codes.row_wise_scale_inv = out->row_wise->scale_inv.as<float>();
  if (out->column_wise) {
    codes.column_wise_codes = out->column_wise->codes.as<uint8_t>();
    codes.column_wise_scale_inv = out->column_wise->scale_inv.as<float>();
  }
  problem.codes = codes;
  SK_RETURN_IF_ERROR(FillInOperands(a, b, options, &problem));
  return Multiply(problem, stream);
}

}  // namespace scalekeeper
