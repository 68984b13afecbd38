// Host kernels and Matmul.
//
// Run with: bazel run -c opt //benchmarks:quantizer_benchmark
#include <cmath>
#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "gemm/matmul.h"
#include "numerics/convert.h"
#include "quantizer/kernels.h"

namespace scalekeeper {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

struct Input {
  Input(DType dtype, int64_t n) : bytes(n * n * SizeOf(dtype)) {
    view = TensorView::Contiguous(bytes.data(), dtype, n, n);
    for (int64_t i = 0; i < n * n; ++i) {
      StoreFloat(dtype, std::sin(static_cast<float>(i)), bytes.data(), i);
    }
  }
  std::vector<char> bytes;
  TensorView view;
};

// Reports bytes read and written per second.
void SetThroughput(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
  state.SetLabel(std::string(Name(kDTypes[state.range(0)])));
}

void Amax(benchmark::State& state) {
  Input x(kDTypes[state.range(0)], state.range(1));
  uint32_t amax = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels::Amax(x.view, &amax, {}, Stream()));
  }
  SetThroughput(state, static_cast<int64_t>(x.bytes.size()));
}
BENCHMARK(Amax)->ArgsProduct({{0, 1, 2}, {1024}});

// state.range(2): 1 row-wise, 2 column-wise, 3 both; amax always.
void CastAndAmax(benchmark::State& state) {
  Input x(kDTypes[state.range(0)], state.range(1));
  const int64_t n = state.range(1);
  std::vector<uint8_t> codes(n * n), turned(n * n);
  const float scale = 448.0f;
  uint32_t amax = 0;
  kernels::CastOutput out;
  if ((state.range(2) & 1) != 0) out.row_wise = codes.data();
  if ((state.range(2) & 2) != 0) out.column_wise = turned.data();
  out.amax = &amax;
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels::Cast(x.view, kernels::GivenScale(&scale),
                                           Format::kE4M3, out, {}, Stream()));
  }
  const int64_t copies = state.range(2) == 3 ? 2 : 1;
  SetThroughput(state, static_cast<int64_t>(x.bytes.size()) + copies * n * n);
}
BENCHMARK(CastAndAmax)->ArgsProduct({{0, 1, 2}, {1024}, {1, 2, 3}});

// y = x w^T of n x n matrices, float32 out; 1e9 multiply-adds per second.
void MatmulReference(benchmark::State& state) {
  const int64_t n = state.range(1);
  Input a(kDTypes[state.range(0)], n), b(kDTypes[state.range(0)], n);
  Input out(DType::kF32, n);
  MatmulOptions options;
  options.transb = true;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Matmul(a.view, b.view, out.view, options, Stream()));
  }
  state.counters["GMAC/s"] =
      benchmark::Counter(1e-9 * static_cast<double>(n * n * n),
                         benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(std::string(Name(kDTypes[state.range(0)])));
}
BENCHMARK(MatmulReference)->ArgsProduct({{0, 1}, {64, 256, 1024}});

}  // namespace
}  // namespace scalekeeper

BENCHMARK_MAIN();
