// Data-parallel training under a recipe: what the example is about.
//
// Each rank is a thread with its own replica, RecipeState and quantizers, on
// the host or on a GPU of its own; the ranks share one group for amaxes and
// average their gradients.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_TRAINER_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_TRAINER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/device.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/linear.h"
#include "recipe/recipe.h"

namespace scalekeeper {

struct TrainOptions {
  DeviceKind device = DeviceKind::kHost;  // kCuda: rank r uses GPU r
  int ranks = 4;
  int64_t epochs = 20;
  int64_t batch = 32;  // rows per rank and step
  float learning_rate = 2e-3f;
  uint64_t seed = 0;
};

struct TrainResult {
  double accuracy = 0;  // on the test set
  float loss = 0;       // of the last step, mean over the ranks
  // Rank 0's quantizers; empty where the recipe quantizes nothing.
  std::vector<Linear::Report> quantizers;
  // Per rank, what is equal on all ranks when everything is right: the scales
  // that they share (Linear::SharedScales), and the model's parameters.
  std::vector<std::vector<float>> scales;
  std::vector<std::vector<float>> parameters;
};

// Called by rank 0 after each step.
using Progress = std::function<void(int64_t step, int64_t steps, float loss)>;

// InvalidArgument when the recipe has faults for this model's modules.
absl::Status CheckRecipe(const Recipe& recipe);

// Steps are numbered from 0: the recipe's phases follow them. The first failing
// rank's Status ends all ranks.
absl::StatusOr<TrainResult> Train(const Recipe& recipe, const Digits& digits,
                                  const TrainOptions& options,
                                  const Progress& progress);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_TRAINER_H_
