#include "examples/train_digits/linear.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

ConstTensorView Rows(const float* data, int64_t rows, int64_t cols) {
  return ConstTensorView::Contiguous(data, DType::kF32, rows, cols);
}

TensorView MutableRows(float* data, int64_t rows, int64_t cols) {
  return TensorView::Contiguous(data, DType::kF32, rows, cols);
}

// The operands of one GEMM: quantized, or as they were where the recipe says
// so.
struct Operands {
  MatmulOperand a;
  MatmulOperand b;
};

Operands Choose(const GemmPolicy& policy, const QuantizedTensor& a8,
                ConstTensorView a, const QuantizedTensor& b8,
                ConstTensorView b) {
  if (policy.high_precision) return {a, b};
  return {a8, b8};
}

}  // namespace

Linear::Linear(RecipeState* state, std::string name, ModuleSlots slots,
               int64_t in, int64_t out, float* parameters, float* gradients)
    : state_(state),
      name_(std::move(name)),
      slots_(slots),
      in_(in),
      out_(out),
      parameters_(parameters),
      gradients_(gradients) {}

absl::Status Linear::MakeQuantizers() {
  const Usages both = {/*row_wise=*/true, /*column_wise=*/true};
  SK_ASSIGN_OR_RETURN(input_quantizer_,
                      MakeQuantizer(state_, slots_.input, both));
  SK_ASSIGN_OR_RETURN(weight_quantizer_,
                      MakeQuantizer(state_, slots_.weight, both));
  SK_ASSIGN_OR_RETURN(grad_quantizer_,
                      MakeQuantizer(state_, slots_.grad, both));
  return absl::OkStatus();
}

ConstTensorView Linear::Weight() const { return Rows(parameters_, out_, in_); }

absl::Status Linear::Forward(const float* x, int64_t rows,
                             Activation activation, bool training, float* y) {
  input_quantizer_->set_observing(training);
  weight_quantizer_->set_observing(training);
  const ConstTensorView input = Rows(x, rows, in_);
  SK_ASSIGN_OR_RETURN(QuantizedTensor input8,
                      input_quantizer_->Quantize(input, Stream{}));
  SK_ASSIGN_OR_RETURN(QuantizedTensor weight8,
                      weight_quantizer_->Quantize(Weight(), Stream{}));
  const ConstTensorView bias = Rows(parameters_ + out_ * in_, 1, out_);
  const GemmPolicy& policy = state_->gemm_policy(name_, Gemm::kFprop);
  MatmulOptions options;
  options.transb = true;
  options.bias = &bias;
  options.activation = activation;
  options.fast_accum = policy.fast_accum;
  const Operands operands = Choose(policy, input8, input, weight8, Weight());
  SK_RETURN_IF_ERROR(Matmul(operands.a, operands.b, MutableRows(y, rows, out_),
                            options, Stream{}));
  if (training) {
    x_ = x;
    input_ = std::move(input8);
    weight_ = std::move(weight8);
  }
  return absl::OkStatus();
}

absl::Status Linear::Backward(const float* dy, int64_t rows, float* dx) {
  const ConstTensorView grad = Rows(dy, rows, out_);
  SK_ASSIGN_OR_RETURN(QuantizedTensor grad8,
                      grad_quantizer_->Quantize(grad, Stream{}));
  if (dx != nullptr) {
    const GemmPolicy& policy = state_->gemm_policy(name_, Gemm::kDgrad);
    MatmulOptions options;
    options.fast_accum = policy.fast_accum;
    const Operands operands = Choose(policy, grad8, grad, weight_, Weight());
    SK_RETURN_IF_ERROR(Matmul(operands.a, operands.b,
                              MutableRows(dx, rows, in_), options, Stream{}));
  }
  const GemmPolicy& policy = state_->gemm_policy(name_, Gemm::kWgrad);
  MatmulOptions options;
  options.transa = true;
  options.fast_accum = policy.fast_accum;
  const Operands operands =
      Choose(policy, grad8, grad, input_, Rows(x_, rows, in_));
  SK_RETURN_IF_ERROR(Matmul(operands.a, operands.b,
                            MutableRows(gradients_, out_, in_), options,
                            Stream{}));
  float* bias_gradient = gradients_ + out_ * in_;
  std::fill_n(bias_gradient, out_, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < out_; ++c) bias_gradient[c] += dy[r * out_ + c];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Linear::Report>> Linear::Reports(
    const float* x, const float* dy, int64_t rows) const {
  struct Entry {
    SlotId slot;
    const Quantizer* quantizer;
    ConstTensorView tensor;
  };
  const Entry entries[] = {
      {slots_.input, input_quantizer_.get(), Rows(x, rows, in_)},
      {slots_.weight, weight_quantizer_.get(), Weight()},
      {slots_.grad, grad_quantizer_.get(), Rows(dy, rows, out_)}};
  std::vector<Report> reports;
  for (const Entry& entry : entries) {
    const Policy& policy = state_->policy(entry.slot);
    if (policy.scaling == Scaling::kHighPrecision) continue;
    SK_ASSIGN_OR_RETURN(Statistics statistics,
                        entry.quantizer->Measure(entry.tensor, Stream{}));
    Report report;
    report.quantizer = state_->name(entry.slot);
    report.scaling =
        absl::StrCat(Name(policy.scaling), " ", Name(policy.format));
    report.scale = statistics.scale;
    report.amax = statistics.amax();
    report.underflow = statistics.underflow_fraction();
    report.saturation = statistics.saturation_fraction();
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace scalekeeper
