// Checks the arguments of a Matmul, and the one switch on the device kind.
#include "gemm/matmul.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gemm/matmul_problem.h"
#include "quantizer/dequantize.h"

namespace scalekeeper {
namespace {

using internal::MatmulInput;
using internal::MatmulProblem;

absl::StatusOr<MatmulInput> MakeInput(const MatmulOperand& operand,
                                      absl::string_view what, bool transpose) {
  MatmulInput input;
  if (operand.quantized() == nullptr) {
    input.values = operand.view();
    SK_RETURN_IF_ERROR(CheckHighPrecision(input.values, what));
    SK_RETURN_IF_ERROR(ValidateView(input.values, what));
  } else {
    const QuantizedTensor& tensor = *operand.quantized();
    SK_RETURN_IF_ERROR(ValidateTensor(tensor, what));
    switch (tensor.scaling) {
      case Scaling::kHighPrecision:
        break;
      case Scaling::kDelayed:
      case Scaling::kCurrent:
        input.format = tensor.format;
        input.scale_inv =
            (tensor.row_wise ? tensor.row_wise : tensor.column_wise)
                ->scale_inv.as<float>();
        break;
      default:
        return absl::UnimplementedError(absl::StrCat(
            what, ": Matmul does not know scaling ", Name(tensor.scaling)));
    }
    input.values =
        tensor.row_wise ? RowWiseCodes(tensor) : ColumnWiseCodes(tensor);
  }
  if (transpose) input.values = ConstTensorView(input.values.Transposed());
  return input;
}

std::string Shape(const ConstTensorView& view) {
  return absl::StrCat(view.rows, "x", view.cols);
}

// "Matmul M=32 N=128 K=64: " and the rest.
absl::Status Refuse(const MatmulProblem& p, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("Matmul M=", p.out.rows, " N=", p.out.cols,
                   " K=", p.a.values.cols, ": ", message));
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
    return input.values.dtype == DType::kUint8 && input.format == Format::kE5M2;
  };
  if (is_e5m2(p.a) && is_e5m2(p.b)) {
    return Refuse(p, "got E5M2 x E5M2, want at most one E5M2 operand");
  }
  for (const MatmulInput* input : {&p.a, &p.b}) {
    if (input->values.dtype == DType::kUint8 &&
        input->format == Format::kE2M1) {
      return absl::UnimplementedError(
          "Matmul: got an E2M1 operand, want E4M3 or E5M2");
    }
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

absl::Status Matmul(const MatmulOperand& a, const MatmulOperand& b,
                    TensorView out, const MatmulOptions& options, Stream) {
  MatmulProblem problem;
  SK_ASSIGN_OR_RETURN(problem.a, MakeInput(a, "a", options.transa));
  SK_ASSIGN_OR_RETURN(problem.b, MakeInput(b, "b", options.transb));
  SK_RETURN_IF_ERROR(CheckHighPrecision(out, "out"));
  SK_RETURN_IF_ERROR(ValidateOutputView(out, "out"));
  problem.out = out;
  if (options.bias != nullptr) {
    SK_RETURN_IF_ERROR(CheckHighPrecision(*options.bias, "bias"));
    SK_RETURN_IF_ERROR(ValidateView(*options.bias, "bias"));
    problem.bias = *options.bias;
    SK_RETURN_IF_ERROR(CheckDevice(problem, *options.bias, "bias"));
  }
  problem.accumulate = options.accumulate;
  problem.activation = options.activation;
  SK_RETURN_IF_ERROR(CheckDevice(problem, problem.a.values, "a"));
  SK_RETURN_IF_ERROR(CheckDevice(problem, problem.b.values, "b"));
  SK_RETURN_IF_ERROR(CheckShapes(problem));
  SK_RETURN_IF_ERROR(CheckTypes(problem));
  switch (out.device.kind) {
    case DeviceKind::kHost:
      internal::MatmulHost(problem);
      return absl::OkStatus();
    case DeviceKind::kCuda:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "Matmul: this build has none for device ", Name(out.device)));
}

}  // namespace scalekeeper
