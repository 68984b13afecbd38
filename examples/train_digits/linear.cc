#include "examples/train_digits/linear.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

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
  SK_RETURN_IF_ERROR(parameters_on_device_.Reserve(
      state_->device(), ParameterCount(in_, out_), 1));
  return gradients_on_device_.Reserve(state_->device(), out_, in_);
}

absl::Status Linear::UploadParameters() {
  return parameters_on_device_.Upload(parameters_, ParameterCount(in_, out_));
}

absl::Status Linear::Forward(ConstTensorView x, Activation activation,
                             bool training, TensorView y) {
  SK_RETURN_IF_ERROR(UploadParameters());
  input_quantizer_->set_observing(training);
  weight_quantizer_->set_observing(training);
  SK_ASSIGN_OR_RETURN(QuantizedTensor input8,
                      input_quantizer_->Quantize(x, Stream{}));
  SK_ASSIGN_OR_RETURN(QuantizedTensor weight8,
                      weight_quantizer_->Quantize(Weight(), Stream{}));
  const ConstTensorView bias =
      parameters_on_device_.View(1, out_, /*offset=*/out_ * in_);
  const GemmPolicy& policy = state_->gemm_policy(name_, Gemm::kFprop);
  MatmulOptions options;
  options.transb = true;
  options.bias = &bias;
  options.activation = activation;
  options.fast_accum = policy.fast_accum;
  const Operands operands = Choose(policy, input8, x, weight8, Weight());
  SK_RETURN_IF_ERROR(Matmul(operands.a, operands.b, y, options, Stream{}));
  if (training) {
    x_ = x;
    input_ = std::move(input8);
    weight_ = std::move(weight8);
  }
  return absl::OkStatus();
}

absl::Status Linear::Backward(ConstTensorView dy,
                              const std::vector<float>& dy_host,
                              const TensorView* dx) {
  SK_ASSIGN_OR_RETURN(QuantizedTensor grad8,
                      grad_quantizer_->Quantize(dy, Stream{}));
  if (dx != nullptr) {
    const GemmPolicy& policy = state_->gemm_policy(name_, Gemm::kDgrad);
    MatmulOptions options;
    options.fast_accum = policy.fast_accum;
    const Operands operands = Choose(policy, grad8, dy, weight_, Weight());
    SK_RETURN_IF_ERROR(Matmul(operands.a, operands.b, *dx, options, Stream{}));
  }
  const GemmPolicy& policy = state_->gemm_policy(name_, Gemm::kWgrad);
  MatmulOptions options;
  options.transa = true;
  options.fast_accum = policy.fast_accum;
  const Operands operands = Choose(policy, grad8, dy, input_, x_);
  SK_RETURN_IF_ERROR(Matmul(operands.a, operands.b,
                            gradients_on_device_.View(out_, in_), options,
                            Stream{}));
  SK_RETURN_IF_ERROR(gradients_on_device_.Download(gradients_, out_ * in_));
  float* bias_gradient = gradients_ + out_ * in_;
  std::fill_n(bias_gradient, out_, 0.0f);
  for (size_t i = 0; i < dy_host.size(); ++i) {
    bias_gradient[i % static_cast<size_t>(out_)] += dy_host[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Linear::Report>> Linear::Reports(
    ConstTensorView x, ConstTensorView dy) {
  struct Entry {
    SlotId slot;
    const Quantizer* quantizer;
    ConstTensorView tensor;
  };
  const Entry entries[] = {{slots_.input, input_quantizer_.get(), x},
                           {slots_.weight, weight_quantizer_.get(), Weight()},
                           {slots_.grad, grad_quantizer_.get(), dy}};
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

absl::StatusOr<std::vector<float>> Linear::SharedScales(bool reduced) {
  SK_RETURN_IF_ERROR(UploadParameters());
  std::vector<float> scales;
  for (const Role role : kRoles) {
    const Policy& policy = state_->policy(slots_.slot(role));
    if (policy.scaling == Scaling::kDelayed && reduced) {
      SK_ASSIGN_OR_RETURN(float scale,
                          state_->Scale(slots_.slot(role), Stream{}));
      scales.push_back(scale);
    } else if (policy.scaling == Scaling::kCurrent && role == Role::kWeight) {
      SK_ASSIGN_OR_RETURN(Statistics statistics,
                          weight_quantizer_->Measure(Weight(), Stream{}));
      scales.push_back(statistics.scale);
    }
  }
  return scales;
}

}  // namespace scalekeeper
