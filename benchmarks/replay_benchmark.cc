// Replays of a binary trace, reading included: slot-steps per second and core
// (`slot_steps` of the output), and the sweep of 18 recipes on all cores.
//
//   bazel run -c opt //benchmarks:replay_benchmark
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "recipe/recipe.h"
#include "replay/replay.h"
#include "replay/sweep.h"
#include "trace/binary_writer.h"
#include "trace/ranked_trace.h"

namespace scalekeeper {
namespace {

constexpr size_t kSlots = 99;

// One rank's trace: amaxes that wander like those of a run.
std::string WriteTrace(int rank, int steps) {
  const char* folder = std::getenv("TMPDIR");
  const std::string path =
      absl::StrCat(folder == nullptr ? "/tmp" : folder, "/replay_benchmark_",
                   rank, "_", steps, ".sktrace");
  TraceHeader header;
  for (size_t i = 0; i < kSlots; ++i) {
    header.columns.push_back(
        LayerColumn(absl::StrCat("layers.", i / 3, ".fc"), kRoles[i % 3]));
  }
  auto writer = BinaryTraceWriter::Create(path, header);
  if (!writer.ok()) std::abort();
  uint32_t random = 1 + static_cast<uint32_t>(rank);
  TraceStep step;
  step.amax_bits.assign(kSlots, 0x3F800000u);
  for (step.step = 0; step.step < steps; ++step.step) {
    step.loss = 1.0;
    for (uint32_t& bits : step.amax_bits) {
      random = random * 1664525u + 1013904223u;
      bits = 0x3F800000u + (random >> 8);  // 1 to 4
    }
    if (!(*writer)->Write(step).ok()) std::abort();
  }
  if (!(*writer)->Close().ok()) std::abort();
  return path;
}

void Run(benchmark::State& state, const std::vector<LabeledRecipe>& recipes,
         const std::vector<std::string>& paths, int steps, int threads) {
  ReplayOptions options;
  options.threads = threads;
  for (auto _ : state) {
    auto trace = RankedTrace::Open(paths, {});
    if (!trace.ok()) std::abort();
    auto result = Replay(&*trace, recipes, options);
    if (!result.ok() || result->steps != steps) std::abort();
    benchmark::DoNotOptimize(result->recipes[0].total.saturated_tensors);
  }
  state.counters["slot_steps"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kSlots *
                             steps * static_cast<double>(recipes.size()),
                         benchmark::Counter::kIsRate);
}

Recipe Preset(const char* name) {
  auto recipe = Recipe::Load(name);
  if (!recipe.ok()) std::abort();
  return *std::move(recipe);
}

// Args: history length, ranks.
void BM_OneRecipeOneCore(benchmark::State& state) {
  constexpr int kSteps = 20000;
  auto recipes = Sweep({"delayed_hybrid", Preset("delayed_hybrid")},
                       {{"amax_history_len", {absl::StrCat(state.range(0))}}});
  std::vector<std::string> paths;
  for (int rank = 0; rank < state.range(1); ++rank) {
    paths.push_back(WriteTrace(rank, kSteps));
  }
  Run(state, *recipes, paths, kSteps, /*threads=*/1);
}
BENCHMARK(BM_OneRecipeOneCore)
    ->ArgsProduct({{16, 1024}, {1, 2}})
    ->Unit(benchmark::kMillisecond);

// 1000 steps x 99 slots x 2 ranks x 18 recipes.
void BM_Sweep18(benchmark::State& state) {
  constexpr int kSteps = 1000;
  auto recipes =
      Sweep({"delayed_hybrid", Preset("delayed_hybrid")},
            {{"amax_history_len", {"1", "4", "16", "64", "256", "1024"}},
             {"margin", {"0", "1", "2"}}});
  Run(state, *recipes, {WriteTrace(0, kSteps), WriteTrace(1, kSteps)}, kSteps,
      /*threads=*/0);
}
BENCHMARK(BM_Sweep18)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace scalekeeper

BENCHMARK_MAIN();
