#include "examples/train_digits/linear.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "quantizer/inference_guard.h"
#include "quantizer/linear_usages.h"

namespace scalekeeper {
Linear::Linear(RecipeState* state, std::string name, ModuleSlots slots,
               const Options& options, float* parameters, float* gradients)
    : state_(state),
      name_(std::move(name)),
      slots_(slots),
      options_(options),
      parameters_(parameters),
      gradients_(gradients) {}

absl::Status Linear::MakeQuantizers() {
  for (const Role role : kRoles) {
    SK_ASSIGN_OR_RETURN(operand(role).quantizer,
                        MakeQuantizer(state_, slots_.slot(role), Usages(),
                                      options_.allocator));
  }
  SK_RETURN_IF_ERROR(parameters_on_device_.Reserve(
      state_->device(), ParameterCount(options_.in, options_.out), 1));
  return gradients_on_device_.Reserve(state_->device(), options_.out,
                                      options_.in);
}

absl::Status Linear::UploadParameters() {
  return parameters_on_device_.Upload(
      parameters_, ParameterCount(options_.in, options_.out));
}

absl::Status Linear::Quantize(Role role, ConstTensorView x) {
  const Usages usages =
      GetLinearUsages(*state_, name_, options_.needs_dx).of(role);
  Operand& own = operand(role);
  std::optional<QuantizedTensor>& kept = own.kept;
  if (!usages.any()) {
    kept.reset();
    return absl::OkStatus();
  }
  const int phase = state_->active_phase();
  if (kept && own.phase == phase && kept->rows == x.rows &&
      kept->cols == x.cols && kept->usages() == usages) {
    return own.quantizer->QuantizeInto(x, &*kept, nullptr, Stream{});
  }
  own.quantizer->set_usages(usages);
  own.phase = phase;
  SK_ASSIGN_OR_RETURN(kept, own.quantizer->Quantize(x, Stream{}));
  return absl::OkStatus();
}

absl::Status Linear::Multiply(Gemm gemm,
                              const std::optional<QuantizedTensor>& a8,
                              ConstTensorView a,
                              const std::optional<QuantizedTensor>& b8,
                              ConstTensorView b, TensorView out,
                              MatmulOptions options) {
  const GemmPolicy& policy = state_->gemm_policy(name_, gemm);
  if (policy.high_precision) return Matmul(a, b, out, options, Stream{});
  options.fast_accum = policy.fast_accum;
  return Matmul(*a8, *b8, out, options, Stream{});
}

absl::Status Linear::Forward(ConstTensorView x, Activation activation,
                             bool training, TensorView y) {
  SK_RETURN_IF_ERROR(UploadParameters());
  const ConstTensorView bias = parameters_on_device_.View(
      1, options_.out, /*offset=*/options_.out * options_.in);
  MatmulOptions options;
  options.transb = true;
  options.bias = &bias;
  options.activation = activation;
  if (training) {
    SK_RETURN_IF_ERROR(Quantize(Role::kInput, x));
    SK_RETURN_IF_ERROR(Quantize(Role::kWeight, Weight()));
    x_ = x;
    return Multiply(Gemm::kFprop, operand(Role::kInput).kept, x,
                    operand(Role::kWeight).kept, Weight(), y, options);
  }
  const InferenceGuard inference;
  std::optional<QuantizedTensor> input8;
  std::optional<QuantizedTensor> weight8;
  if (!state_->gemm_policy(name_, Gemm::kFprop).high_precision) {
    for (const Role role : {Role::kInput, Role::kWeight}) {
      operand(role).quantizer->set_usages(
          GetLinearUsages(*state_, name_, options_.needs_dx).of(role));
    }
    SK_ASSIGN_OR_RETURN(
        input8, operand(Role::kInput).quantizer->Quantize(x, Stream{}));
    SK_ASSIGN_OR_RETURN(
        weight8,
        operand(Role::kWeight).quantizer->Quantize(Weight(), Stream{}));
  }
  return Multiply(Gemm::kFprop, input8, x, weight8, Weight(), y, options);
}

absl::Status Linear::Backward(ConstTensorView dy,
                              const std::vector<float>& dy_host,
                              const TensorView* dx) {
  SK_RETURN_IF_ERROR(Quantize(Role::kGrad, dy));
  const std::optional<QuantizedTensor>& grad8 = operand(Role::kGrad).kept;
  if (dx != nullptr) {
    SK_RETURN_IF_ERROR(Multiply(Gemm::kDgrad, grad8, dy,
                                operand(Role::kWeight).kept, Weight(), *dx,
                                MatmulOptions()));
  }
  MatmulOptions options;
  options.transa = true;
  SK_RETURN_IF_ERROR(
      Multiply(Gemm::kWgrad, grad8, dy, operand(Role::kInput).kept, x_,
               gradients_on_device_.View(options_.out, options_.in), options));
  const int64_t weights = options_.out * options_.in;
  SK_RETURN_IF_ERROR(gradients_on_device_.Download(gradients_, weights));
  float* bias_gradient = gradients_ + weights;
  std::fill_n(bias_gradient, options_.out, 0.0f);
  for (size_t i = 0; i < dy_host.size(); ++i) {
    bias_gradient[i % static_cast<size_t>(options_.out)] += dy_host[i];
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
  const Entry entries[] = {{slots_.input, operand(Role::kInput).quantizer.get(), x},
                           {slots_.weight, operand(Role::kWeight).quantizer.get(), Weight()},
                           {slots_.grad, operand(Role::kGrad).quantizer.get(), dy}};
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
                          operand(Role::kWeight).quantizer->Measure(
                              Weight(), Stream{}));
      scales.push_back(statistics.scale);
    }
  }
  return scales;
}

}  // namespace scalekeeper
