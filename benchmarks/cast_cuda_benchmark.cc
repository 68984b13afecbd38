// Casts on a GPU as a fraction of its copy bandwidth, measured in the same run.
//
//   cast_cuda_benchmark --benchmark_filter=16384
//
// bfloat16, n x n (cast_bench_cuda.h). Counters: `GBps` counts the bytes that
// must move, each input read once per pass and each output written once (amax 2
// B per element, cast 3, with the transposed copy 4, current scaling 5 in two
// passes); `of_copy` is that over the bandwidth of a device-to-device copy of
// the same n (4 B per element).
#include "benchmarks/cast_bench_cuda.h"

namespace scalekeeper {
namespace {

using Call = void (*)(Bench&, Tensors&);

void CallCopy(Bench& bench, Tensors& t) {
  Check(
      Copy(kDevice, t.row_wise.data(), t.x.data(), t.x.size(), bench.stream()));
}
void CallAmax(Bench& bench, Tensors& t) {
  Check(kernels::Amax(bench.View(t), bench.amax(), {}, bench.stream()));
}
void CallCast(Bench& bench, Tensors& t) {
  kernels::CastOutput out;
  out.row_wise = t.row_wise.as<uint8_t>();
  out.amax = bench.amax();
  Check(kernels::Cast(bench.View(t), bench.Given(), Format::kE4M3, out, {},
                      bench.stream()));
}
void CallCastTransposed(Bench& bench, Tensors& t) {
  kernels::CastOutput out;
  out.row_wise = t.row_wise.as<uint8_t>();
  out.column_wise = t.column_wise.as<uint8_t>();
  out.amax = bench.amax();
  Check(kernels::Cast(bench.View(t), bench.Given(), Format::kE4M3, out, {},
                      bench.stream()));
}
void CallCurrent(Bench& bench, Tensors& t) {
  kernels::CastScale scale;
  scale.kind = kernels::CastScale::Kind::kCurrent;
  scale.scratch = bench.scratch();
  kernels::CastOutput out;
  out.row_wise = t.row_wise.as<uint8_t>();
  Check(kernels::Cast(bench.View(t), scale, Format::kE4M3, out, {},
                      bench.stream()));
}

void Run(benchmark::State& state, Call call, double bytes_per_element) {
  Bench bench(state.range(0));
  ReportCast(
      state, bench, [&](Tensors& t) { call(bench, t); }, bytes_per_element);
}

#define SK_CAST_BENCHMARK(name, call, bytes) \
  BENCHMARK_CAPTURE(Run, name, call, bytes)  \
      ->Arg(16384)                           \
      ->Arg(4096)                            \
      ->Arg(2048)                            \
      ->UseManualTime()                      \
      ->Iterations(1)

SK_CAST_BENCHMARK(copy, CallCopy, 4);
SK_CAST_BENCHMARK(amax, CallAmax, 2);
SK_CAST_BENCHMARK(cast_amax, CallCast, 3);
SK_CAST_BENCHMARK(cast_transpose_amax, CallCastTransposed, 4);
SK_CAST_BENCHMARK(current_row_wise, CallCurrent, 5);

}  // namespace
}  // namespace scalekeeper

BENCHMARK_MAIN();
