// Casts on a GPU as a fraction of its copy bandwidth, measured in the same run.
//
//   cast_cuda_benchmark --benchmark_filter=16384
//
// bfloat16, n x n, random values; small tensors rotate through enough buffers
// that no run finds its input in the L2 cache. Time is the GPU's, events around
// a batch of calls. Counters: `GBps` counts the bytes that must move, each
// input read once per pass and each output written once (amax 2 B per element,
// cast 3, with the transposed copy 4, current scaling 5 in two passes);
// `of_copy` is that over the bandwidth of a device-to-device copy of the same n
// (4 B per element).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "benchmark/benchmark.h"
#include "numerics/bits.h"
#include "quantizer/kernels.h"

namespace scalekeeper {
namespace {

const Device kDevice = Device::Cuda(0);
constexpr int kBatch = 20;
constexpr int kRepeats = 15;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}
void CheckCuda(cudaError_t error) { Check(CudaStatus(error, "CUDA")); }

Buffer DeviceBuffer(size_t bytes) {
  return ValueOf(Buffer::Allocate(ValueOf(DefaultAllocator(kDevice)), bytes));
}

// Input and outputs of one call.
struct Tensors {
  Buffer x, row_wise, column_wise;
};

class Bench {
 public:
  explicit Bench(int64_t n) : n_(n), stream_(ValueOf(CreateCudaStream())) {
    const size_t elements = static_cast<size_t>(n * n);
    // More than twice the L2 cache of the largest chips in all.
    const size_t sets =
        std::max<size_t>(2, (size_t{256} << 20) / (elements * 2));
    std::vector<uint16_t> values(1 << 20);
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0, 1);
    for (uint16_t& value : values) value = BF16FromFloat(normal(generator));
    for (size_t s = 0; s < sets; ++s) {
      Tensors t{DeviceBuffer(elements * 2), DeviceBuffer(elements * 2),
                DeviceBuffer(elements)};
      for (size_t at = 0; at < elements; at += values.size()) {
        Check(CopyFromHost(kDevice, t.x.as<uint16_t>() + at, values.data(),
                           std::min(values.size(), elements - at) * 2,
                           Stream()));
      }
      tensors_.push_back(std::move(t));
    }
    scale_ = DeviceBuffer(sizeof(float));
    amax_ = DeviceBuffer(sizeof(kernels::AmaxScratch));
    const float scale = 100.0f;
    Check(
        CopyFromHost(kDevice, scale_.data(), &scale, sizeof(scale), Stream()));
    Check(FillBytes(kDevice, amax_.data(), 0, amax_.size(), Stream()));
    CheckCuda(cudaDeviceSynchronize());
  }

  ConstTensorView View(const Tensors& t) const {
    return ConstTensorView::Contiguous(t.x.data(), DType::kBF16, n_, n_,
                                       kDevice);
  }
  Stream stream() const { return AsStream(stream_); }
  uint32_t* amax() { return amax_.as<uint32_t>(); }
  kernels::AmaxScratch* scratch() { return amax_.as<kernels::AmaxScratch>(); }
  kernels::CastScale Given() const {
    return kernels::GivenScale(scale_.as<float>());
  }

  // Median seconds per call.
  double Time(const std::function<void(Tensors&)>& call) {
    for (Tensors& t : tensors_) call(t);
    CudaEvent start = ValueOf(CreateCudaEvent());
    CudaEvent stop = ValueOf(CreateCudaEvent());
    std::vector<double> seconds;
    size_t next = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      CheckCuda(cudaEventRecord(start.get(), stream_.get()));
      for (int i = 0; i < kBatch; ++i) {
        call(tensors_[next]);
        next = (next + 1) % tensors_.size();
      }
      CheckCuda(cudaEventRecord(stop.get(), stream_.get()));
      CheckCuda(cudaEventSynchronize(stop.get()));
      float milliseconds = 0;
      CheckCuda(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
      seconds.push_back(milliseconds * 1e-3 / kBatch);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

 private:
  int64_t n_;
  CudaStream stream_;
  std::vector<Tensors> tensors_;
  Buffer scale_, amax_;
};

double CopyBandwidth(int64_t n) {
  static auto* const known = new std::map<int64_t, double>;
  const auto it = known->find(n);
  if (it != known->end()) return it->second;
  Bench bench(n);
  const size_t bytes = static_cast<size_t>(n * n) * 2;
  const double seconds = bench.Time([&](Tensors& t) {
    Check(Copy(kDevice, t.row_wise.data(), t.x.data(), bytes, bench.stream()));
  });
  return (*known)[n] = 2.0 * static_cast<double>(bytes) / seconds;
}

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
  const int64_t n = state.range(0);
  const double copy = CopyBandwidth(n);
  Bench bench(n);
  double seconds = 0;
  for (auto _ : state) {
    seconds = bench.Time([&](Tensors& t) { call(bench, t); });
    state.SetIterationTime(seconds);
  }
  const double rate = bytes_per_element * static_cast<double>(n) *
                      static_cast<double>(n) / seconds;
  state.counters["us"] = seconds * 1e6;
  state.counters["GBps"] = rate * 1e-9;
  state.counters["of_copy"] = rate / copy;
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
