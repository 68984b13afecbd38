// The training example under a recipe; for tests.
#ifndef SCALEKEEPER_TESTS_EXAMPLES_TRAINING_TESTING_H_
#define SCALEKEEPER_TESTS_EXAMPLES_TRAINING_TESTING_H_

#include <utility>

#include "base/file.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/trainer.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {

inline Digits LoadDigits() {
  const auto csv = ReadFile("examples/data/digits.csv");
  EXPECT_THAT(csv, IsOk());
  auto digits = ParseDigits(*csv, /*seed=*/0);
  EXPECT_THAT(digits, IsOk());
  return *std::move(digits);
}

inline TrainResult TrainUnder(const absl::StatusOr<Recipe>& recipe,
                              const TrainOptions& options) {
  EXPECT_THAT(recipe, IsOk());
  auto result = Train(*recipe, LoadDigits(), options, nullptr);
  EXPECT_THAT(result, IsOk());
  return *std::move(result);
}

inline absl::StatusOr<Recipe> Float32() {
  return Recipe::Parse("defaults { all { high_precision { dtype: FP32 } } }",
                       "float32");
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_EXAMPLES_TRAINING_TESTING_H_
