// Trains the digits in float32 and under a recipe that names a quantizer of
// this program's own.
//
//   custom_quantizer [RECIPE]
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "examples/custom_quantizer/log8.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/trainer.h"
#include "quantizer/custom_quantizer.h"
#include "recipe/recipe.h"

namespace scalekeeper {
namespace {

absl::Status Run(const std::string& recipe_path) {
  SK_RETURN_IF_ERROR(RegisterLog8());
  SK_ASSIGN_OR_RETURN(const Recipe recipe, Recipe::Load(recipe_path));
  SK_RETURN_IF_ERROR(CheckFactories(recipe));
  SK_ASSIGN_OR_RETURN(const Recipe float32, Recipe::Load("high_precision"));
  SK_ASSIGN_OR_RETURN(const std::string csv,
                      ReadFile("examples/data/digits.csv"));
  SK_ASSIGN_OR_RETURN(const Digits digits, ParseDigits(csv, /*seed=*/0));
  SK_ASSIGN_OR_RETURN(const TrainResult plain,
                      Train(float32, digits, TrainOptions(), nullptr));
  SK_ASSIGN_OR_RETURN(const TrainResult quantized,
                      Train(recipe, digits, TrainOptions(), nullptr));
  std::cout << absl::StrFormat(
      "high precision: %.4f\n%s: %.4f of the test digits are right\n",
      plain.accuracy, recipe.name(), quantized.accuracy);
  return absl::OkStatus();
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  const absl::Status status = scalekeeper::Run(
      argc > 1 ? argv[1] : "examples/custom_quantizer/log8.textproto");
  if (status.ok()) return 0;
  std::cerr << status.message() << "\n";
  return 1;
}
