// Forward and backward of one linear layer under a recipe, against bf16.
//
//   linear_step_cuda_benchmark
//
// Tokens x in -> out. A step: quantize input, weight and output gradient (both
// copies), fprop, dgrad, wgrad, EndStep; bf16: the three GEMMs. Outputs are
// bfloat16, wgrad accumulates into float32. Time is the GPU's over a batch of
// steps, everything in one run. Counters: `bf16_us` of the same layer,
// `speedup` = bf16 / recipe, and the shares of the step that quantizing, the
// GEMMs and EndStep take when each is timed alone.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "amax/recipe_state.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "benchmark/benchmark.h"
#include "gemm/matmul.h"
#include "numerics/bits.h"
#include "quantizer/kernels.h"
#include "quantizer/quantizer.h"

namespace scalekeeper {
namespace {

const Device kDevice = Device::Cuda(0);

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

// rows x cols on the device: random bfloat16 values, or float32 zeros.
class Tensor {
 public:
  Tensor(int64_t rows, int64_t cols, DType dtype, float deviation)
      : rows_(rows), cols_(cols), dtype_(dtype) {
    const size_t elements = static_cast<size_t>(rows * cols);
    buffer_ = ValueOf(Buffer::Allocate(ValueOf(DefaultAllocator(kDevice)),
                                       elements * SizeOf(dtype)));
    Check(FillBytes(kDevice, buffer_.data(), 0, buffer_.size(), Stream()));
    if (dtype != DType::kBF16) return;
    std::vector<uint16_t> values(1 << 20);
    std::mt19937 generator(static_cast<unsigned>(rows));
    std::normal_distribution<float> normal(0, deviation);
    for (uint16_t& value : values) value = BF16FromFloat(normal(generator));
    for (size_t at = 0; at < elements; at += values.size()) {
      Check(CopyFromHost(kDevice, buffer_.as<uint16_t>() + at, values.data(),
                         std::min(values.size(), elements - at) * 2, Stream()));
    }
  }
  TensorView view() {
    return TensorView::Contiguous(buffer_.data(), dtype_, rows_, cols_,
                                  kDevice);
  }

 private:
  int64_t rows_, cols_;
  DType dtype_;
  Buffer buffer_;
};

class Layer {
 public:
  Layer(const std::string& recipe, int64_t tokens, int64_t in, int64_t out)
      : stream_(ValueOf(CreateCudaStream())),
        x_(tokens, in, DType::kBF16, 1.0f),
        w_(out, in, DType::kBF16, 0.02f),
        dy_(tokens, out, DType::kBF16, 1e-4f),
        y_(tokens, out, DType::kBF16, 0),
        dx_(tokens, in, DType::kBF16, 0),
        dw_(out, in, DType::kF32, 0) {
    RecipeStateOptions options;
    options.device = kDevice;
    state_ =
        ValueOf(RecipeState::Create(ValueOf(Recipe::Load(recipe)), options));
    const ModuleSlots slots = ValueOf(state_->AddModule("linear"));
    Check(state_->Freeze());
    const Usages both = {true, true};
    for (const Role role : kRoles) {
      quantizers_.push_back(
          ValueOf(MakeQuantizer(state_.get(), slots.slot(role), both)));
    }
    const TensorView views[] = {x_.view(), w_.view(), dy_.view()};
    for (size_t i = 0; i < 3; ++i) {
      quantized_.push_back(ValueOf(
          quantizers_[i]->MakeEmpty(views[i].rows, views[i].cols, stream())));
    }
  }

  void Quantize() {
    const TensorView views[] = {x_.view(), w_.view(), dy_.view()};
    for (size_t i = 0; i < 3; ++i) {
      Check(quantizers_[i]->QuantizeInto(views[i], &quantized_[i], nullptr,
                                         stream()));
    }
  }
  void Gemms(bool quantized) {
    const auto operand = [&](size_t i, Tensor& plain) -> MatmulOperand {
      if (quantized) return quantized_[i];
      return plain.view();
    };
    MatmulOptions fprop;
    fprop.transb = true;
    fprop.fast_accum = true;
    Check(Matmul(operand(0, x_), operand(1, w_), y_.view(), fprop, stream()));
    Check(Matmul(operand(2, dy_), operand(1, w_), dx_.view(), {}, stream()));
    MatmulOptions wgrad;
    wgrad.transa = true;
    wgrad.accumulate = true;
    Check(Matmul(operand(2, dy_), operand(0, x_), dw_.view(), wgrad, stream()));
  }
  void EndStep() { Check(state_->EndStep(stream())); }

  // Median seconds per call.
  double Time(const std::function<void()>& call) {
    constexpr int kBatch = 5;
    constexpr int kRepeats = 11;
    for (int i = 0; i < 3; ++i) call();
    CudaEvent start = ValueOf(CreateCudaEvent());
    CudaEvent stop = ValueOf(CreateCudaEvent());
    std::vector<double> seconds;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      CheckCuda(cudaEventRecord(start.get(), stream_.get()));
      for (int i = 0; i < kBatch; ++i) call();
      CheckCuda(cudaEventRecord(stop.get(), stream_.get()));
      CheckCuda(cudaEventSynchronize(stop.get()));
      float milliseconds = 0;
      CheckCuda(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
      seconds.push_back(milliseconds * 1e-3 / kBatch);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[kRepeats / 2];
  }

 private:
  Stream stream() const { return AsStream(stream_); }

  CudaStream stream_;
  Tensor x_, w_, dy_, y_, dx_, dw_;
  std::unique_ptr<RecipeState> state_;
  std::vector<std::unique_ptr<Quantizer>> quantizers_;
  std::vector<QuantizedTensor> quantized_;
};

void Step(benchmark::State& state, const std::string& recipe) {
  Layer layer(recipe, 8192, state.range(0), state.range(1));
  for (auto _ : state) {
    const double bf16 = layer.Time([&] { layer.Gemms(/*quantized=*/false); });
    const double step = layer.Time([&] {
      layer.Quantize();
      layer.Gemms(/*quantized=*/true);
      layer.EndStep();
    });
    const double quantize = layer.Time([&] { layer.Quantize(); });
    const double gemms = layer.Time([&] { layer.Gemms(/*quantized=*/true); });
    const double end_step = layer.Time([&] { layer.EndStep(); });
    state.SetIterationTime(step);
    state.counters["step_us"] = step * 1e6;
    state.counters["bf16_us"] = bf16 * 1e6;
    state.counters["speedup"] = bf16 / step;
    state.counters["quantize_share"] = quantize / step;
    state.counters["gemm_share"] = gemms / step;
    state.counters["end_step_share"] = end_step / step;
  }
}

BENCHMARK_CAPTURE(Step, delayed_hybrid, "delayed_hybrid")
    ->Args({4096, 16384})
    ->Args({8192, 8192})
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(Step, tensorwise, "tensorwise")
    ->Args({4096, 16384})
    ->Args({8192, 8192})
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(Step, rowwise, "rowwise")
    ->Args({4096, 16384})
    ->Args({8192, 8192})
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(Step, blockwise, "blockwise")
    ->Args({4096, 16384})
    ->Args({8192, 8192})
    ->UseManualTime()
    ->Iterations(1);

// Median host microseconds per call. Batches are shorter than the device's
// queue of launches and wait for the device in between, untimed: a full queue
// would make the host wait.
double HostMicroseconds(int calls_per_batch,
                        const std::function<void()>& batch) {
  constexpr int kRepeats = 101;
  for (int i = 0; i < 3; ++i) batch();
  std::vector<double> microseconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    CheckCuda(cudaDeviceSynchronize());
    const auto start = std::chrono::steady_clock::now();
    batch();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    microseconds.push_back(taken.count() / calls_per_batch);
  }
  CheckCuda(cudaDeviceSynchronize());
  std::sort(microseconds.begin(), microseconds.end());
  return microseconds[kRepeats / 2];
}

constexpr int kHostBatch = 50;

// Of one QuantizeInto with both copies, after the first update or before it.
void QuantizeHostTime(benchmark::State& state, const std::string& recipe,
                      bool updated) {
  Layer layer(recipe, 256, 256, 256);
  layer.Quantize();
  if (updated) layer.EndStep();
  for (auto _ : state) {
    const double us = HostMicroseconds(3 * kHostBatch, [&] {
      for (int i = 0; i < kHostBatch; ++i) layer.Quantize();
    });
    state.SetIterationTime(us * 1e-6);
    state.counters["us_per_call"] = us;
  }
}
BENCHMARK_CAPTURE(QuantizeHostTime, delayed_hybrid, "delayed_hybrid", true)
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(QuantizeHostTime, delayed_hybrid_first_step, "delayed_hybrid",
                  false)
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(QuantizeHostTime, tensorwise, "tensorwise", true)
    ->UseManualTime()
    ->Iterations(1);

// Of what a Quantize is made of.
void HostTimeOfParts(benchmark::State& state) {
  const CudaStream stream = ValueOf(CreateCudaStream());
  Tensor x(256, 256, DType::kBF16, 1.0f);
  Tensor y(256, 256, DType::kBF16, 1.0f);
  Tensor codes(256, 256, DType::kBF16, 1.0f);
  const auto time = [](const std::function<void()>& call) {
    return HostMicroseconds(kHostBatch, [&] {
      for (int i = 0; i < kHostBatch; ++i) call();
    });
  };
  for (auto _ : state) {
    state.counters["device_guard"] =
        time([] { Check(CudaDeviceGuard::Enter(kDevice.index).status()); });
    state.counters["check_memory"] =
        time([&] { Check(CheckMemory(kDevice, x.view().data, "x")); });
    TensorView one = x.view();
    one.rows = one.cols = 1;
    TensorView out = y.view();
    out.rows = out.cols = 1;
    state.counters["small_launch"] =
        time([&] { Check(kernels::Convert(one, out, {}, AsStream(stream))); });
    kernels::CastOutput cast;
    cast.row_wise = static_cast<uint8_t*>(codes.view().data);
    cast.column_wise = cast.row_wise + 256 * 256;
    const auto scale =
        kernels::GivenScale(static_cast<const float*>(y.view().data));
    state.counters["cast"] = time([&] {
      Check(kernels::Cast(x.view(), scale, Format::kE4M3, cast, {},
                          AsStream(stream)));
    });
    state.SetIterationTime(1e-6);
  }
}
BENCHMARK(HostTimeOfParts)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace scalekeeper

BENCHMARK_MAIN();
