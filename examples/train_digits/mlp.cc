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
                                                 uint64_t seed) {
  std::unique_ptr<Mlp> mlp = absl::WrapUnique(new Mlp);
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
    mlp->layers_.emplace_back(state, name, slots, in, out, parameters,
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
  activations_[0] = batch.pixels;
  for (size_t i = 0; i < kLayers; ++i) {
    activations_[i + 1].resize(static_cast<size_t>(rows_ * kWidths[i + 1]));
    const Activation activation =
        i + 1 < kLayers ? Activation::kRelu : Activation::kNone;
    SK_RETURN_IF_ERROR(layers_[i].Forward(activations_[i].data(), rows_,
                                          activation, training,
                                          activations_[i + 1].data()));
  }
  return absl::OkStatus();
}

absl::StatusOr<float> Mlp::ForwardBackward(const DigitSet& batch) {
  SK_RETURN_IF_ERROR(Forward(batch, /*training=*/true));
  output_gradients_[kLayers - 1].resize(static_cast<size_t>(rows_ * kClasses));
  float loss = 0;
  const float weight = 1.0f / static_cast<float>(rows_);
  for (int64_t r = 0; r < rows_; ++r) {
    loss += CrossEntropy(
        &activations_[kLayers][static_cast<size_t>(r * kClasses)],
        batch.labels[static_cast<size_t>(r)], weight,
        &output_gradients_[kLayers - 1][static_cast<size_t>(r * kClasses)]);
  }
  for (size_t i = kLayers; i-- > 0;) {
    float* dx = nullptr;
    if (i > 0) {
      output_gradients_[i - 1].resize(activations_[i].size());
      dx = output_gradients_[i - 1].data();
    }
    SK_RETURN_IF_ERROR(
        layers_[i].Backward(output_gradients_[i].data(), rows_, dx));
    if (i == 0) break;
    for (size_t k = 0; k < activations_[i].size(); ++k) {
      if (activations_[i][k] <= 0.0f) dx[k] = 0.0f;  // through the ReLU
    }
  }
  return loss * weight;
}

absl::StatusOr<int64_t> Mlp::CountCorrect(const DigitSet& set) {
  SK_RETURN_IF_ERROR(Forward(set, /*training=*/false));
  int64_t correct = 0;
  for (int64_t r = 0; r < rows_; ++r) {
    const float* logits =
        &activations_[kLayers][static_cast<size_t>(r * kClasses)];
    const auto best = std::max_element(logits, logits + kClasses) - logits;
    correct += best == set.labels[static_cast<size_t>(r)];
  }
  return correct;
}

absl::StatusOr<std::vector<Linear::Report>> Mlp::Reports() const {
  std::vector<Linear::Report> all;
  for (size_t i = 0; i < kLayers; ++i) {
    SK_ASSIGN_OR_RETURN(std::vector<Linear::Report> reports,
                        layers_[i].Reports(activations_[i].data(),
                                           output_gradients_[i].data(), rows_));
    all.insert(all.end(), reports.begin(), reports.end());
  }
  return all;
}

}  // namespace scalekeeper
