// The cost of a step and of Freeze on the host.
//
//   bazel run -c opt //benchmarks:amax_benchmark
//
// Targets: EndStep of 10,000 slots under 1 ms and, at history 1024, at most 1.5
// times that of history 16, on falling amaxes too; Freeze of 100,000 slots
// under 1 s.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/recipe_state.h"
#include "benchmark/benchmark.h"
#include "recipe/recipe.h"

namespace scalekeeper {
namespace {

constexpr int kSlots = 10000;

void DieIfError(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T ValueOrExit(absl::StatusOr<T> value) {
  DieIfError(value.status());
  return *std::move(value);
}

std::unique_ptr<RecipeState> MakeState(const std::string& delayed,
                                       int modules) {
  Recipe recipe = ValueOrExit(
      Recipe::Parse(absl::StrCat("defaults { all { format: E4M3 delayed { ",
                                 delayed, " } } }"),
                    "benchmark"));
  auto state = ValueOrExit(RecipeState::Create(recipe, {}));
  for (int i = 0; i < modules; ++i) {
    DieIfError(state
                   ->AddModule(absl::StrCat("layers.", i / 8, ".mlp.experts.",
                                            i % 8, ".fc"))
                   .status());
  }
  return state;
}

enum Amaxes { kConstant, kFalling };

// Argument 0: history length; argument 1: how the amaxes move.
void BM_EndStep(benchmark::State& bench, const char* algo) {
  auto state = MakeState(absl::StrCat("amax_history_len: ", bench.range(0),
                                      " amax_compute_algo: ", algo),
                         (kSlots + 2) / 3);
  DieIfError(state->Freeze());
  std::vector<uint32_t*> words;
  for (int32_t i = 0; i < kSlots; ++i) {
    words.push_back(state->View(SlotId{i}).amax);
  }
  uint32_t amax = 0x7F000000u;
  const auto observe = [&] {
    if (bench.range(1) == kFalling) --amax;
    for (uint32_t* word : words) *word = amax;
  };
  for (int64_t i = 0; i < 2 * bench.range(0); ++i) {  // full windows
    observe();
    DieIfError(state->EndStep(Stream{}));
  }
  for (auto _ : bench) {
    bench.PauseTiming();
    observe();
    bench.ResumeTiming();
    DieIfError(state->EndStep(Stream{}));
  }
  bench.SetItemsProcessed(bench.iterations() * kSlots);
}

void EndStepArguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"history", "falling"})
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(1);
  for (int64_t history : {1, 16, 1024, 16384}) {
    for (int64_t amaxes : {kConstant, kFalling}) {
      benchmark->Args({history, amaxes});
    }
  }
}

BENCHMARK_CAPTURE(BM_EndStep, max, "MAX")->Apply(EndStepArguments);
BENCHMARK_CAPTURE(BM_EndStep, most_recent, "MOST_RECENT")
    ->Args({1024, kConstant})
    ->ArgNames({"history", "falling"})
    ->Unit(benchmark::kMicrosecond);

// 33,334 modules are 100,002 slots; their windows are 0.4 GB.
void BM_Freeze(benchmark::State& bench) {
  for (auto _ : bench) {
    bench.PauseTiming();
    auto state =
        MakeState("amax_history_len: 1024", static_cast<int>(bench.range(0)));
    bench.ResumeTiming();
    DieIfError(state->Freeze());
    bench.PauseTiming();
    state.reset();
    bench.ResumeTiming();
  }
}
BENCHMARK(BM_Freeze)
    ->ArgNames({"modules"})
    ->Arg(33334)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);

}  // namespace
}  // namespace scalekeeper

BENCHMARK_MAIN();
