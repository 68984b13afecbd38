#include "examples/train_digits/mlp.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "examples/train_digits/random.h"

namespace scalekeeper {
namespace {

constexpr int64_t kWidths[] = {kPixels, 128, 64, kClasses};
constexpr size_t kLayers = 3;

// Softmax cross-entropy of one row: returns the loss and writes its gradient,
// times `weight`.
float CrossEntropy(const float* logits, int label, float weight, float* grad) {
  const float largest = *std::max_element(logits, logits + kClasses);
  float sum = 0;
  for (int64_t c = 0; c < kClasses; ++c) {
    grad[c] = std::exp(logits[c] - largest);
    sum += grad[c];
  }
  for (int64_t c = 0; c < kClasses; ++c) {
    grad[c] = weight * (grad[c] / sum - (c == label ? 1.0f : 0.0f));
  }
  return std::log(sum) - (logits[label] - largest);
}

}  // namespace

std::vector<std::string> Mlp::ModuleNames() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kLayers; ++i) {
    names.push_back(absl::StrCat("fc", i + 1));
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Mlp>> Mlp::Create(RecipeState* state,
                                                 uint64_t seed,
                                                 Allocator* allocator) {
  std::unique_ptr<Mlp> mlp = absl::WrapUnique(new Mlp(state->device()));
  int64_t count = 0;
  for (size_t i = 0; i < kLayers; ++i) {
    count += Linear::ParameterCount(kWidths[i], kWidths[i + 1]);
  }
  mlp->parameters_.resize(static_cast<size_t>(count));
  mlp->gradients_.resize(static_cast<size_t>(count));
  mlp->activations_.resize(kLayers + 1);
  mlp->output_gradients_.resize(kLayers);

  const std::vector<std::string> names = ModuleNames();
  Random random(seed);
  float* parameters = mlp->parameters_.data();
  float* gradients = mlp->gradients_.data();
  for (size_t i = 0; i < kLayers; ++i) {
    const int64_t in = kWidths[i];
    const int64_t out = kWidths[i + 1];
    // He initialization, uniform; biases start at 0.
    const float limit = std::sqrt(6.0f / static_cast<float>(in));
    for (int64_t k = 0; k < in * out; ++k)
      parameters[k] = random.Uniform(limit);
    const std::string& name = names[i];
    SK_ASSIGN_OR_RETURN(const ModuleSlots slots, state->AddModule(name));
    Linear::Options options;
    options.in = in;
    options.out = out;
    options.needs_dx = i != 0;
    options.allocator = allocator;
    mlp->layers_.emplace_back(state, name, slots, options, parameters,
                              gradients);
    parameters += Linear::ParameterCount(in, out);
    gradients += Linear::ParameterCount(in, out);
  }
  return mlp;
}

absl::Status Mlp::Prepare() {
  for (Linear& layer : layers_) SK_RETURN_IF_ERROR(layer.MakeQuantizers());
  return absl::OkStatus();
}

absl::Status Mlp::Forward(const DigitSet& batch, bool training) {
  rows_ = batch.size();
  SK_RETURN_IF_ERROR(activations_[0].Reserve(device_, rows_, kPixels));
  SK_RETURN_IF_ERROR(
      activations_[0].Upload(batch.pixels.data(), rows_ * kPixels));
  for (size_t i = 0; i < kLayers; ++i) {
    SK_RETURN_IF_ERROR(
        activations_[i + 1].Reserve(device_, rows_, kWidths[i + 1]));
    const Activation activation =
        i + 1 < kLayers ? Activation::kRelu : Activation::kNone;
    SK_RETURN_IF_ERROR(layers_[i].Forward(
        activations_[i].View(rows_, kWidths[i]), activation, training,
        activations_[i + 1].View(rows_, kWidths[i + 1])));
  }
  logits_.resize(static_cast<size_t>(rows_ * kClasses));
  return activations_[kLayers].Download(logits_.data(), rows_ * kClasses);
}

absl::StatusOr<float> Mlp::ForwardBackward(const DigitSet& batch) {
  SK_RETURN_IF_ERROR(Forward(batch, /*training=*/true));
  std::vector<float> dy(logits_.size());
  float loss = 0;
  const float weight = 1.0f / static_cast<float>(rows_);
  for (int64_t r = 0; r < rows_; ++r) {
    const size_t row = static_cast<size_t>(r * kClasses);
    loss += CrossEntropy(&logits_[row], batch.labels[static_cast<size_t>(r)],
                         weight, &dy[row]);
  }
  for (size_t i = kLayers; i-- > 0;) {
    SK_RETURN_IF_ERROR(
        output_gradients_[i].Reserve(device_, rows_, kWidths[i + 1]));
    SK_RETURN_IF_ERROR(
        output_gradients_[i].Upload(dy.data(), rows_ * kWidths[i + 1]));
    const ConstTensorView grad =
        output_gradients_[i].View(rows_, kWidths[i + 1]);
    if (i == 0) {
      SK_RETURN_IF_ERROR(layers_[i].Backward(grad, dy, /*dx=*/nullptr));
      break;
    }
    const int64_t count = rows_ * kWidths[i];
    SK_RETURN_IF_ERROR(
        output_gradients_[i - 1].Reserve(device_, rows_, kWidths[i]));
    const TensorView dx = output_gradients_[i - 1].View(rows_, kWidths[i]);
    SK_RETURN_IF_ERROR(layers_[i].Backward(grad, dy, &dx));
    std::vector<float> output(static_cast<size_t>(count));
    dy.resize(static_cast<size_t>(count));
    SK_RETURN_IF_ERROR(activations_[i].Download(output.data(), count));
    SK_RETURN_IF_ERROR(output_gradients_[i - 1].Download(dy.data(), count));
    for (size_t k = 0; k < dy.size(); ++k) {
      if (output[k] <= 0.0f) dy[k] = 0.0f;  // through the ReLU
    }
  }
  return loss * weight;
}

absl::StatusOr<int64_t> Mlp::CountCorrect(const DigitSet& set) {
  SK_RETURN_IF_ERROR(Forward(set, /*training=*/false));
  int64_t correct = 0;
  for (int64_t r = 0; r < rows_; ++r) {
    const float* row = &logits_[static_cast<size_t>(r * kClasses)];
    const auto best = std::max_element(row, row + kClasses) - row;
    correct += best == set.labels[static_cast<size_t>(r)];
  }
  return correct;
}

absl::StatusOr<std::vector<Linear::Report>> Mlp::Reports() {
  std::vector<Linear::Report> all;
  for (size_t i = 0; i < kLayers; ++i) {
    SK_ASSIGN_OR_RETURN(
        std::vector<Linear::Report> reports,
        layers_[i].Reports(activations_[i].View(rows_, kWidths[i]),
                           output_gradients_[i].View(rows_, kWidths[i + 1])));
    all.insert(all.end(), reports.begin(), reports.end());
  }
  return all;
}

absl::StatusOr<std::vector<float>> Mlp::SharedScales(
    const std::vector<bool>& reduced) {
  std::vector<float> all;
  for (size_t i = 0; i < kLayers; ++i) {
    SK_ASSIGN_OR_RETURN(std::vector<float> scales,
                        layers_[i].SharedScales(reduced[i]));
    all.insert(all.end(), scales.begin(), scales.end());
  }
  return all;
}

}  // namespace scalekeeper
