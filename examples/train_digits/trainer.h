// Data-parallel training under a recipe: what the example is about.
//
// Each rank is a thread with its own replica, RecipeState and quantizers; the
// ranks share one in-process group for amaxes and average their gradients.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_TRAINER_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_TRAINER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/linear.h"
#include "recipe/recipe.h"

namespace scalekeeper {

struct TrainOptions {
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
  // Per rank the scale of every slot in order: equal on all ranks.
  std::vector<std::vector<float>> scales;
};

// Called by rank 0 after each step.
using Progress = std::function<void(int64_t step, int64_t steps, float loss)>;

// Steps are numbered from 0: the recipe's phases follow them. The first failing
// rank's Status ends all ranks.
absl::StatusOr<TrainResult> Train(const Recipe& recipe, const Digits& digits,
                                  const TrainOptions& options,
                                  const Progress& progress);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_TRAINER_H_
