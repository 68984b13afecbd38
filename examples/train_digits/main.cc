// Trains a multi-layer perceptron on hand-written digits twice, in float32 and
// under a recipe, data-parallel over in-process ranks, and compares.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/trainer.h"
#include "numerics/bits.h"
#include "recipe/recipe.h"
#include "tools/command.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"

namespace scalekeeper {
namespace {

// The reference run: the same program with nothing quantized.
constexpr absl::string_view kFloat32Recipe = R"(
  name: "float32"
  defaults { all { high_precision { dtype: FP32 } } }
)";

// A bar on a terminal, redrawn in place; elsewhere a line per tenth.
Progress ProgressBar(const std::string& title) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  return [title, terminal](int64_t step, int64_t steps, float loss) {
    constexpr int64_t kWidth = 30;
    const int64_t tenth = std::max<int64_t>(1, steps / 10);
    const bool last = step == steps;
    if (!terminal && !last && step % tenth != 0) return;
    const size_t filled = static_cast<size_t>(kWidth * step / steps);
    const std::string bar =
        absl::StrFormat("%-10s [%s%s] %3d%%  step %d/%d  loss %.4f", title,
                        std::string(filled, '#'),
                        std::string(static_cast<size_t>(kWidth) - filled, '.'),
                        100 * step / steps, step, steps, loss);
    std::cout << (terminal ? "\r" : "") << bar
              << (terminal && !last ? "" : "\n") << std::flush;
  };
}

void PrintQuantizers(const std::vector<Linear::Report>& quantizers) {
  std::cout << absl::StrFormat("%-12s %-14s %14s %14s %11s %12s\n", "quantizer",
                               "scaling", "scale", "amax", "underflow %",
                               "saturation %");
  for (const Linear::Report& report : quantizers) {
    std::cout << absl::StrFormat("%-12s %-14s %14.6g %14.6g %11.3f %12.3f\n",
                                 report.quantizer, report.scaling, report.scale,
                                 report.amax, 100 * report.underflow,
                                 100 * report.saturation);
  }
}

// Whether every rank ended with the bits of rank 0.
bool Agree(const std::vector<std::vector<float>>& ranks) {
  return std::all_of(
      ranks.begin(), ranks.end(), [&](const std::vector<float>& rank) {
        return std::equal(rank.begin(), rank.end(), ranks.front().begin(),
                          ranks.front().end(), [](float a, float b) {
                            return BitsFromFloat(a) == BitsFromFloat(b);
                          });
      });
}

// The digits lie beside the program, in its runfiles, or in the source tree.
std::string DefaultDataPath(const std::string& program) {
  const std::string in_tree = "examples/data/digits.csv";
  const std::string runfiles =
      absl::StrCat(program, ".runfiles/scalekeeper/", in_tree);
  return access(runfiles.c_str(), R_OK) == 0 ? runfiles : in_tree;
}

int Run(const std::string& program, absl::Span<const std::string> args) {
  FlagSet flags("train_digits", "",
                "Trains on hand-written digits in float32 and under a recipe.");
  std::string recipe_name = "delayed_hybrid";
  std::string data = DefaultDataPath(program);
  TrainOptions options;
  int64_t ranks = options.ranks;
  int64_t seed = 0;
  flags.String("recipe", &recipe_name, "FILE", "recipe file or preset");
  std::string device = "host";
  flags.Choice("device", &device, {"host", "cuda"},
               "where GEMMs and casts run; cuda: one GPU a rank");
  flags.Int64("ranks", &ranks, "N", "data-parallel ranks, one thread each");
  flags.Int64("epochs", &options.epochs, "N", "passes over the training set");
  flags.Int64("batch", &options.batch, "N", "rows per rank and step");
  flags.Int64("seed", &seed, "N", "of the split, the order and the weights");
  flags.String("data", &data, "CSV", "64 pixels and the digit per line");
  std::vector<std::string> operands;
  if (const auto exit_code =
          flags.Parse(args, operands, std::cout, std::cerr)) {
    return *exit_code;
  }
  if (!operands.empty()) {
    return flags.UsageError(
        absl::StrCat("unexpected argument '", operands[0], "'"), std::cerr);
  }
  if (ranks < 1 || ranks > 64) {
    return flags.UsageError(
        absl::StrCat("--ranks: got ", ranks, ", want 1..64"), std::cerr);
  }
  options.ranks = static_cast<int>(ranks);
  options.seed = static_cast<uint64_t>(seed);
  if (device == "cuda") {
    options.device = DeviceKind::kCuda;
    if (!flags.Has("ranks")) options.ranks = 1;
  }

  const absl::StatusOr<Recipe> recipe = Recipe::Load(recipe_name);
  if (!recipe.ok()) return ReportStatus(recipe.status(), std::cerr);
  if (const absl::Status status = CheckRecipe(*recipe); !status.ok()) {
    return ReportStatus(status, std::cerr);
  }
  const absl::StatusOr<Recipe> float32 =
      Recipe::Parse(kFloat32Recipe, "float32");
  if (!float32.ok()) return ReportStatus(float32.status(), std::cerr);
  const absl::StatusOr<std::string> csv = ReadFile(data);
  if (!csv.ok()) return ReportStatus(csv.status(), std::cerr);
  const absl::StatusOr<Digits> digits = ParseDigits(*csv, options.seed);
  if (!digits.ok()) {
    std::cerr << data << ": " << digits.status().message() << "\n";
    return kExitFindings;
  }

  const absl::StatusOr<TrainResult> reference =
      Train(*float32, *digits, options, ProgressBar("float32"));
  if (!reference.ok()) return ReportStatus(reference.status(), std::cerr);
  const absl::StatusOr<TrainResult> result =
      Train(*recipe, *digits, options, ProgressBar("recipe"));
  if (!result.ok()) return ReportStatus(result.status(), std::cerr);

  std::cout << absl::StrFormat(
      "\nrecipe %s (%s), %d ranks x %d rows, %d epochs, seed %d\n", recipe_name,
      recipe->fingerprint(), options.ranks, options.batch, options.epochs,
      seed);
  std::cout << absl::StrFormat("float32 accuracy: %.4f\n", reference->accuracy);
  std::cout << absl::StrFormat("recipe accuracy: %.4f\n\n", result->accuracy);
  PrintQuantizers(result->quantizers);
  if (!Agree(result->scales) || !Agree(result->parameters)) {
    std::cerr << "scales or parameters differ between ranks\n";
    return kExitFindings;
  }
  std::cout << absl::StrFormat(
      "\n%d shared scales and %d parameters are bit-identical on %d ranks\n",
      result->scales.front().size(), result->parameters.front().size(),
      options.ranks);
  return kExitOk;
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  return scalekeeper::Run(argv[0],
                          std::vector<std::string>(argv + 1, argv + argc));
}
