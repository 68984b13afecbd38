// Casts under scalings with many scales, as a fraction of the GPU's copy
// bandwidth in the same run.
//
//   block_cast_cuda_benchmark --benchmark_filter=16384
//
// Quantize into an existing tensor, all passes included; the amax goes into a
// slot's word. bfloat16, n x n (cast_bench_cuda.h). `GBps` and `of_copy` count
// 2 B for each element read once, 1 B for each code (E2M1: 0.5) and the scales
// of NVFP4 (0.06); `own_amax` of NVFP4 2 B more, for the pass that takes the
// tensor's amax.
#include <optional>

#include "benchmarks/cast_bench_cuda.h"
#include "quantizer/block_kernels.h"
#include "quantizer/block_quantizer.h"
#include "quantizer/quantize_workspace.h"

namespace scalekeeper {
namespace {

Policy PolicyOf(Scaling scaling, bool square = false) {
  Policy policy;
  policy.scaling = scaling;
  policy.format = scaling == Scaling::kNvfp4 ? Format::kE2M1 : Format::kE4M3;
  if (square) policy.block.block_shape = BlockShape::k128x128;
  policy.mxfp8.two_dimensional = square;
  policy.nvfp4.two_dimensional = square;
  return policy;
}

// As preset "nvfp4" quantizes gradients.
Policy Nvfp4GradPolicy() {
  Policy policy = PolicyOf(Scaling::kNvfp4);
  policy.nvfp4.stochastic_rounding = true;
  policy.nvfp4.random_hadamard = true;
  return policy;
}

void Quantize(benchmark::State& state, const Policy& policy, Usages usages,
              double bytes_per_element) {
  const int64_t n = state.range(0);
  Bench bench(n);
  Buffer step = DeviceBuffer(sizeof(int64_t));
  Check(FillBytes(kDevice, step.data(), 0, step.size(), Stream()));
  BlockQuantizer quantizer("bench/input", policy, SlotView{bench.amax()},
                           step.as<int64_t>(), /*group=*/nullptr, kDevice,
                           usages, ValueOf(DefaultAllocator(kDevice)));
  QuantizedTensor out = ValueOf(quantizer.MakeEmpty(n, n));
  ReportCast(
      state, bench,
      [&](Tensors& t) {
        Check(quantizer.QuantizeInto(bench.View(t), &out,
                                     /*noop_flag=*/nullptr, bench.stream()));
      },
      bytes_per_element);
}

// With the tensor's amax given.
void Nvfp4Given(benchmark::State& state) {
  const int64_t n = state.range(0);
  Bench bench(n);
  QuantizedTensor out =
      ValueOf(AllocateQuantized(n, n, PolicyOf(Scaling::kNvfp4), {true, false},
                                kDevice, ValueOf(DefaultAllocator(kDevice))));
  kernels::BlockCastSpec spec;
  spec.format = Format::kE2M1;
  kernels::BlockCastOutput codes;
  codes.row_wise.codes = out.row_wise->codes.as<uint8_t>();
  codes.row_wise.scales = out.row_wise->scales;
  codes.row_wise.tensor_amax = bench.amax();
  ReportCast(
      state, bench,
      [&](Tensors& t) {
        Check(
            kernels::BlockCast(bench.View(t), spec, codes, {}, bench.stream()));
      },
      2.5625);
}

constexpr Usages kRow = {true, false};
constexpr Usages kBoth = {true, true};

#define SK_BLOCK_BENCHMARK(name, ...)            \
  BENCHMARK_CAPTURE(Quantize, name, __VA_ARGS__) \
      ->Arg(16384)                               \
      ->Arg(4096)                                \
      ->UseManualTime()                          \
      ->Iterations(1)

SK_BLOCK_BENCHMARK(rowwise_row, PolicyOf(Scaling::kRowwise), kRow, 3);
SK_BLOCK_BENCHMARK(rowwise_both, PolicyOf(Scaling::kRowwise), kBoth, 6);
SK_BLOCK_BENCHMARK(block_1x128_row, PolicyOf(Scaling::kBlock), kRow, 3);
SK_BLOCK_BENCHMARK(block_1x128_both, PolicyOf(Scaling::kBlock), kBoth, 4);
SK_BLOCK_BENCHMARK(block_128x128_both, PolicyOf(Scaling::kBlock, true), kBoth,
                   4);
SK_BLOCK_BENCHMARK(mxfp8_row, PolicyOf(Scaling::kMxfp8), kRow, 3);
SK_BLOCK_BENCHMARK(mxfp8_both, PolicyOf(Scaling::kMxfp8), kBoth, 4);
SK_BLOCK_BENCHMARK(mxfp8_32x32_both, PolicyOf(Scaling::kMxfp8, true), kBoth, 4);
SK_BLOCK_BENCHMARK(nvfp4_row_own_amax, PolicyOf(Scaling::kNvfp4), kRow, 4.5625);
SK_BLOCK_BENCHMARK(nvfp4_both_own_amax, PolicyOf(Scaling::kNvfp4), kBoth,
                   5.125);
SK_BLOCK_BENCHMARK(nvfp4_16x16_both_own_amax, PolicyOf(Scaling::kNvfp4, true),
                   kBoth, 5.125);
SK_BLOCK_BENCHMARK(nvfp4_grad_both_own_amax, Nvfp4GradPolicy(), kBoth, 5.125);
BENCHMARK(Nvfp4Given)->Arg(16384)->Arg(4096)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace scalekeeper

BENCHMARK_MAIN();
