// A multi-layer perceptron for the digits: 64 -> 128 -> 64 -> 10, ReLU between,
// softmax cross-entropy at the end. Every linear layer goes through quantizers.
//
// The GEMMs and casts run on the state's device; what is small (the loss, the
// ReLU's mask, the optimizer's parameters) stays on the host.
//
// Order of calls: Create (declares the modules), RecipeState::Freeze, Prepare,
// then training steps. One thread at a time. The RecipeState must outlive it.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_MLP_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_MLP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
#include "examples/train_digits/device_floats.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/linear.h"

namespace scalekeeper {

class Mlp {
 public:
  // "fc1", "fc2", "fc3".
  static std::vector<std::string> ModuleNames();
  // The same seed gives the same initial parameters. `allocator` (null: the
  // device's default) is where quantized tensors come from.
  static absl::StatusOr<std::unique_ptr<Mlp>> Create(
      RecipeState* state, uint64_t seed, Allocator* allocator = nullptr);
  absl::Status Prepare();

  // Forward and backward on one batch: fills gradients() (of the mean loss) and
  // returns the mean loss.
  absl::StatusOr<float> ForwardBackward(const DigitSet& batch);
  // How many of the set are classified right; observes nothing.
  absl::StatusOr<int64_t> CountCorrect(const DigitSet& set);
  // Of the last ForwardBackward.
  absl::StatusOr<std::vector<Linear::Report>> Reports();
  // Of all layers (Linear::SharedScales); reduced[i] belongs to layer i.
  absl::StatusOr<std::vector<float>> SharedScales(
      const std::vector<bool>& reduced);

  std::vector<float>& parameters() { return parameters_; }
  std::vector<float>& gradients() { return gradients_; }

 private:
  explicit Mlp(Device device) : device_(device) {}
  // Leaves the logits in logits_.
  absl::Status Forward(const DigitSet& batch, bool training);

  Device device_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  std::vector<Linear> layers_;
  // activations_[0] is the batch's pixels, activations_[i + 1] layer i's
  // output; output_gradients_[i] is the gradient of layer i's output.
  std::vector<DeviceFloats> activations_;
  std::vector<DeviceFloats> output_gradients_;
  std::vector<float> logits_;
  int64_t rows_ = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_MLP_H_
