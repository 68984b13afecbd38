// Tensors on a GPU and the time of a call on them, for benchmarks of casts.
//
// bfloat16, n x n, random values (FillRandomOnDevice, as
// benchmarks/peers/run.py makes them, too); small tensors rotate through enough
// buffers that no run finds its input in the L2 cache. Time is the GPU's,
// events around a batch of calls.
#ifndef SCALEKEEPER_BENCHMARKS_CAST_BENCH_CUDA_H_
#define SCALEKEEPER_BENCHMARKS_CAST_BENCH_CUDA_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "benchmark/benchmark.h"
#include "gemm/matmul_kernels_cuda.h"
#include "quantizer/kernels.h"

namespace scalekeeper {

inline const Device kDevice = Device::Cuda(0);
inline constexpr int kBatch = 20;
inline constexpr int kRepeats = 15;

inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}
inline void CheckCuda(cudaError_t error) { Check(CudaStatus(error, "CUDA")); }

inline Buffer DeviceBuffer(size_t bytes) {
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
    for (size_t s = 0; s < sets; ++s) {
      Tensors t{DeviceBuffer(elements * 2), DeviceBuffer(elements * 2),
                DeviceBuffer(elements)};
      Check(FillRandomOnDevice(CUDA_R_16BF, t.x.data(),
                               static_cast<int64_t>(elements), nullptr));
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

inline double CopyBandwidth(int64_t n) {
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

// Times `call` and reports it as a fraction of the copy of the same n.
inline void ReportCast(benchmark::State& state, Bench& bench,
                       const std::function<void(Tensors&)>& call,
                       double bytes_per_element) {
  const int64_t n = state.range(0);
  const double copy = CopyBandwidth(n);
  double seconds = 0;
  for (auto _ : state) {
    seconds = bench.Time(call);
    state.SetIterationTime(seconds);
  }
  const double rate = bytes_per_element * static_cast<double>(n) *
                      static_cast<double>(n) / seconds;
  state.counters["us"] = seconds * 1e6;
  state.counters["GBps"] = rate * 1e-9;
  state.counters["of_copy"] = rate / copy;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BENCHMARKS_CAST_BENCH_CUDA_H_
