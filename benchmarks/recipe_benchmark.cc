// The cost of loading a recipe and of resolving it for many modules.
//
//   bazel run -c opt //benchmarks:recipe_benchmark
//
// Target: 100,000 modules against 100 rules well under 2 s.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "recipe/recipe.h"

namespace scalekeeper {
namespace {

template <typename T>
T ValueOrExit(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

// The names of a mixture-of-experts model.
std::vector<std::string> ModuleNames(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    names.push_back(absl::StrCat("model.decoder.layers.", i % 1000,
                                 ".mlp.experts.", i / 1000, ".fc1"));
  }
  return names;
}

std::string RecipeText(int64_t rules) {
  std::string text = "defaults { all { delayed {} } }\n";
  for (int64_t i = 0; i < rules; ++i) {
    absl::StrAppend(&text, "rule { module: \".*layers\\\\.", i,
                    "\\\\.mlp\\\\.experts\\\\..*\" all { delayed { margin: ",
                    i % 33, " } } }\n");
  }
  return text;
}

// Arguments: modules, rules.
void BM_Resolve(benchmark::State& state) {
  const std::vector<std::string> modules = ModuleNames(state.range(0));
  const Recipe recipe =
      ValueOrExit(Recipe::Parse(RecipeText(state.range(1)), "benchmark"));
  for (auto _ : state) {
    benchmark::DoNotOptimize(ValueOrExit(recipe.Resolve(modules)));
  }
}
BENCHMARK(BM_Resolve)
    ->Args({1000, 100})
    ->Args({100000, 0})
    ->Args({100000, 10})
    ->Args({100000, 100})
    ->Unit(benchmark::kMillisecond);

// Rules that choose layers by number; their groups are captured per module.
void BM_ResolveLayers(benchmark::State& state) {
  const std::vector<std::string> modules = ModuleNames(100000);
  const Recipe recipe = ValueOrExit(Recipe::Parse(
      "defaults { all { delayed {} } } rule { layers { pattern: "
      "'model\\\\.decoder\\\\.layers\\\\.(\\\\d+)\\\\..*' first: 2 "
      "last_percent: 15 } all { high_precision {} } }",
      "benchmark"));
  for (auto _ : state) {
    benchmark::DoNotOptimize(ValueOrExit(recipe.Resolve(modules)));
  }
}
BENCHMARK(BM_ResolveLayers)->Unit(benchmark::kMillisecond);

// Argument: rules.
void BM_Parse(benchmark::State& state) {
  const std::string text = RecipeText(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(ValueOrExit(Recipe::Parse(text, "benchmark")));
  }
}
BENCHMARK(BM_Parse)->Arg(0)->Arg(100)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scalekeeper

BENCHMARK_MAIN();
