// Matmul on a GPU against the best that cuBLASLt's heuristic offers for the
// same product, timed in the same program, call by call in turn.
//
//   matmul_cuda_benchmark                      # all rows, about a minute
//   matmul_cuda_benchmark --benchmark_filter=8192
//
// Time is the GPU's (events around a batch of calls). Counters: `TFLOPs` of
// Matmul; `bare_best` and `bare_first`, TFLOP/s of the fastest and of the first
// of the heuristic's `answers` in a bare cublasLtMatmul; `ratio`: the median of
// TFLOPs / bare_best over batches that follow each other, ours and bare first
// in turn; `cold_ratio`: the same with the L2 cache evicted before each call.
// Rows under host/: time of the calling thread per call, `bare` that
// of cublasLtMatmul alone with the same algorithm, `ratio` = ours / bare.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "benchmark/benchmark.h"
#include "benchmarks/matmul_rows_cuda.h"
#include "gemm/cublaslt_handles.h"
#include "gemm/cublaslt_plan.h"
#include "gemm/cublaslt_types.h"
#include "gemm/matmul.h"
#include "gemm/matmul_kernels_cuda.h"

namespace scalekeeper {
namespace {

constexpr size_t kBatch = 5;
constexpr int kBareRounds = 5;
constexpr int kIterations = 16;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
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

// Memory that begins 16 bytes after another's.
class OffBy16 : public Allocator {
 public:
  explicit OffBy16(Allocator* inner) : inner_(inner) {}
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    absl::StatusOr<void*> data = inner_->Allocate(bytes + kOffset);
    if (!data.ok()) return data;
    return static_cast<char*>(*data) + kOffset;
  }
  void Deallocate(void* data, size_t bytes) override {
    inner_->Deallocate(static_cast<char*>(data) - kOffset, bytes + kOffset);
  }
  Device device() const override { return inner_->device(); }

 private:
  static constexpr size_t kOffset = 16;
  Allocator* const inner_;
};

// Everything that a row multiplies, on the GPU, with random values.
class Operands {
 public:
  explicit Operands(const Row& row) : row_(row) {
    allocator_ = ValueOf(DefaultAllocator(kDevice));
    off_by_16_ = std::make_unique<OffBy16>(allocator_);
    stream_ = ValueOf(CreateCudaStream());
    const int64_t out_count = row.m * row.n;
    if (row.x_format) {
      x_ = Quantized(row.m, row.k, *row.x_format, row.x_scaled);
      w_ = Quantized(row.n, row.k, row.w_format, row.w_scaled,
                     row.w_off_by_16 ? off_by_16_.get() : nullptr);
    } else {
      x_values_ = Random(CudaType(row.plain), row.m * row.k);
      w_values_ = Random(CudaType(row.plain), row.n * row.k);
    }
    if (row.out_format) {
      y8_ = Quantized(row.m, row.n, *row.out_format, Scaled());
      const float slot[3] = {0.0f, 1.0f, 1.0f};
      slot_ = FromHost(slot, sizeof(slot));
    } else {
      y_ = Random(CudaType(row.out), out_count);
    }
    if (row.bias) bias_ = Random(CudaType(*row.bias), row.n);
    bare_scales_ = Random(CUDA_R_32F, row.n * ((row.k + 127) / 128));
    workspace_ = ValueOf(Buffer::Allocate(allocator_, kWorkspaceBytes));
    amax_word_ = ValueOf(Buffer::Allocate(allocator_, 4));
    handle_ = ValueOf(CreateCublasLtHandle());
    CheckCuda(cudaStreamSynchronize(stream_.get()));
  }

  void Multiply() {
    MatmulOptions options;
    options.transb = true;
    options.fast_accum = row_.fast_accum;
    options.activation = row_.activation;
    options.accumulate = row_.accumulate;
    options.emulate = row_.IsEmulated();
    ConstTensorView bias;
    if (row_.bias) {
      bias = ConstTensorView(
          TensorView::Contiguous(bias_.data(), *row_.bias, 1, row_.n, kDevice));
      options.bias = &bias;
    }
    const auto operand = [this](const std::optional<QuantizedTensor>& tensor,
                                Buffer* values, int64_t rows) {
      return tensor ? MatmulOperand(*tensor)
                    : MatmulOperand(TensorView(TensorView::Contiguous(
                          values->data(), row_.plain, rows, row_.k, kDevice)));
    };
    const MatmulOperand x = operand(x_, &x_values_, row_.m);
    const MatmulOperand w = operand(w_, &w_values_, row_.n);
    if (row_.out_format) {
      Check(MatmulQuantized(x, w, &*y8_, Slot(), options, AsStream(stream_)));
      return;
    }
    Check(Matmul(
        x, w,
        TensorView::Contiguous(y_.data(), row_.out, row_.m, row_.n, kDevice),
        options, AsStream(stream_)));
  }

  // The same product as cuBLASLt knows it (gemm/matmul_plan_key.h).
  MatmulPlanKey Key() const {
    MatmulPlanKey key;
    key.m = row_.n;
    key.n = row_.m;
    key.k = key.lda = key.ldb = row_.k;
    key.ldd = row_.n;
    key.op_a = CUBLAS_OP_T;
    key.op_b = CUBLAS_OP_N;
    key.compute = CUBLAS_COMPUTE_32F;
    key.a_type = row_.x_format ? CudaType(row_.w_format) : CudaType(row_.plain);
    key.b_type =
        row_.x_format ? CudaType(*row_.x_format) : CudaType(row_.plain);
    key.d_type =
        row_.out_format ? CudaType(*row_.out_format) : CudaType(row_.out);
    key.c_type = row_.out_format ? int64_t{CUDA_R_16BF} : int64_t{key.d_type};
    key.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (row_.activation == Activation::kGelu) {
      key.epilogue =
          row_.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    } else if (row_.activation == Activation::kRelu) {
      key.epilogue =
          row_.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    } else if (row_.bias) {
      key.epilogue = CUBLASLT_EPILOGUE_BIAS;
    }
    if (row_.bias) key.bias_type = CudaType(*row_.bias);
    if (row_.x_format) {
      key.flags |= MatmulPlanKey::kScaled;
      key.a_scale_mode = BareWMode();
      key.b_scale_mode = BareXMode();
      if (row_.fast_accum && !row_.IsBlocked()) {
        key.flags |= MatmulPlanKey::kFastAccum;
      }
    }
    if (row_.accumulate) key.flags |= MatmulPlanKey::kAccumulate;
    if (row_.out_format) key.flags |= MatmulPlanKey::kQuantizedOut;
    return key;
  }

  MatmulPointers Pointers() {
    MatmulPointers p;
    p.a = w_ ? w_->row_wise->codes.data() : w_values_.data();
    p.b = x_ ? x_->row_wise->codes.data() : x_values_.data();
    p.d = y8_ ? y8_->row_wise->codes.data() : y_.data();
    if (row_.bias) p.bias = bias_.data();
    if (x_) {
      // Where the bare product needs a mode that a tensor is not in, memory of
      // the right size.
      p.a_scale = BareWMode() == row_.w_scaled.mode
                      ? w_->row_wise->scale_inv.data()
                      : bare_scales_.data();
      p.b_scale = BareXMode() == row_.x_scaled.mode
                      ? x_->row_wise->scale_inv.data()
                      : bare_scales_.data();
    }
    if (y8_) {
      p.d_scale = Slot().scale;
      p.amax_d = amax_word_.as<uint32_t>();
    }
    return p;
  }

  MatmulSite Site() {
    MatmulSite site;
    site.handle = handle_.get();
    site.workspace = workspace_.data();
    site.workspace_bytes = kWorkspaceBytes;
    site.stream = stream_.get();
    return site;
  }

  cudaStream_t stream() const { return stream_.get(); }
  double flops() const {
    return 2.0 * static_cast<double>(row_.m) * static_cast<double>(row_.n) *
           static_cast<double>(row_.k);
  }

 private:
  SlotView Slot() {
    return {slot_.as<uint32_t>(), slot_.as<float>() + 1, slot_.as<float>() + 2,
            nullptr};
  }
  Buffer Random(cudaDataType_t type, int64_t count,
                Allocator* allocator = nullptr) {
    Buffer buffer =
        ValueOf(Buffer::Allocate(allocator == nullptr ? allocator_ : allocator,
                                 static_cast<size_t>(count * BytesOf(type))));
    Check(FillRandomOnDevice(type, buffer.data(), count, stream_.get()));
    return buffer;
  }
  Buffer FromHost(const void* data, size_t bytes) {
    Buffer buffer = ValueOf(Buffer::Allocate(allocator_, bytes));
    Check(CopyFromHost(kDevice, buffer.data(), data, bytes, AsStream(stream_)));
    return buffer;
  }
  // The modes of the bare product: the operands' own, unless cuBLASLt has no
  // such pair; then Matmul's choice.
  int64_t BareXMode() const {
    const Scaled& x = row_.x_scaled;
    if (x.block_rows == 128 && row_.w_scaled.block_rows == 128) {
      return k1x128.mode;
    }
    return x.scaling == Scaling::kDelayed ? row_.w_scaled.mode : x.mode;
  }
  int64_t BareWMode() const {
    const Scaled& w = row_.w_scaled;
    return w.scaling == Scaling::kDelayed ? row_.x_scaled.mode : w.mode;
  }
  QuantizedTensor Quantized(int64_t rows, int64_t cols, Format format,
                            const Scaled& scaled,
                            Allocator* of_codes = nullptr) {
    QuantizedTensor tensor;
    tensor.rows = rows;
    tensor.cols = cols;
    tensor.scaling = scaled.scaling;
    tensor.format = format;
    tensor.device = kDevice;
    QuantizedData data;
    data.codes = Random(CudaType(format), rows * cols, of_codes);
    BlockScales& scales = data.scales;
    scales.block_rows = scaled.block_rows == 0 ? rows : scaled.block_rows;
    scales.block_cols = scaled.block_cols == 0 ? cols : scaled.block_cols;
    scales.rows = (rows + scales.block_rows - 1) / scales.block_rows;
    scales.cols = (cols + scales.block_cols - 1) / scales.block_cols;
    if (scaled.scaling == Scaling::kMxfp8) {
      scales.type = ScaleType::kE8M0;
      scales.row_stride = scales.cols;
      const std::vector<uint8_t> bytes(
          static_cast<size_t>(scales.rows * scales.cols), 120);
      data.scale_inv = FromHost(bytes.data(), bytes.size());
    } else {
      scales.row_stride =
          scales.block_rows == 128 ? (scales.cols + 3) / 4 * 4 : 1;
      scales.col_stride = scales.block_rows == 128 ? 1 : scales.rows;
      const int64_t count = scales.block_rows == 128
                                ? scales.rows * scales.row_stride
                                : scales.rows * scales.cols;
      const std::vector<float> floats(static_cast<size_t>(count), 1.0f / 128);
      data.scale_inv = FromHost(floats.data(), floats.size() * sizeof(float));
    }
    scales.data = data.scale_inv.data();
    tensor.row_wise = std::move(data);
    return tensor;
  }

  const Row row_;
  Allocator* allocator_ = nullptr;
  std::unique_ptr<OffBy16> off_by_16_;
  CudaStream stream_;
  CublasLtHandle handle_;
  std::optional<QuantizedTensor> x_, w_, y8_;
  Buffer x_values_, w_values_, y_, bias_, slot_, workspace_, amax_word_;
  Buffer bare_scales_;
};

// GPU seconds of one call, over a batch: back to back, or each with what it
// needs out of the L2 cache.
class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    for (CudaEvent& event : events_) event = ValueOf(CreateCudaEvent());
    int l2_bytes = 0;
    CheckCuda(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize,
                                     kDevice.index));
    flush_ = ValueOf(Buffer::Allocate(ValueOf(DefaultAllocator(kDevice)),
                                      2 * static_cast<size_t>(l2_bytes)));
  }

  double BackToBack(const std::function<void()>& call) {
    call();
    Record(0);
    for (size_t i = 0; i < kBatch; ++i) call();
    Record(1);
    return Elapsed(0, 1) / kBatch;
  }

  double Cold(const std::function<void()>& call) {
    double seconds = 0;
    for (size_t i = 0; i < kBatch; ++i) {
      CheckCuda(cudaMemsetAsync(flush_.data(), 0, flush_.size(), stream_));
      Record(2 * i);
      call();
      Record(2 * i + 1);
    }
    for (size_t i = 0; i < kBatch; ++i) seconds += Elapsed(2 * i, 2 * i + 1);
    return seconds / kBatch;
  }

 private:
  void Record(size_t event) {
    CheckCuda(cudaEventRecord(events_[event].get(), stream_));
  }
  double Elapsed(size_t from, size_t to) {
    CheckCuda(cudaEventSynchronize(events_[to].get()));
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, events_[from].get(),
                                   events_[to].get()));
    return milliseconds * 1e-3;
  }

  cudaStream_t stream_;
  std::array<CudaEvent, 2 * kBatch> events_;
  Buffer flush_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Bare calls of one row.
class Bare {
 public:
  Bare(Operands* operands, bool is_emulated)
      : plan_(ValueOf(MatmulPlan::Create(operands->Key()))),
        site_(operands->Site()),
        pointers_(operands->Pointers()) {
    if (is_emulated) return;  // there is no such call
    answers_ =
        ValueOf(plan_->HeuristicAnswers(site_, CUBLASLT_REDUCTION_SCHEME_MASK));
    Check(plan_->SetPointers(pointers_));
    answers_.erase(std::remove_if(answers_.begin(), answers_.end(),
                                  [this](const cublasLtMatmulAlgo_t& answer) {
                                    return plan_->Enqueue(answer, pointers_,
                                                          site_) !=
                                           CUBLAS_STATUS_SUCCESS;
                                  }),
                   answers_.end());
    CheckCuda(cudaStreamSynchronize(site_.stream));
    Timer timer(site_.stream);
    std::vector<std::vector<double>> seconds(answers_.size());
    for (int round = 0; round < kBareRounds; ++round) {
      for (size_t i = 0; i < answers_.size(); ++i) {
        seconds[i].push_back(
            timer.BackToBack([this, i] { Call(answers_[i]); }));
      }
    }
    for (size_t i = 0; i < answers_.size(); ++i) {
      const double median = Median(seconds[i]);
      if (i == 0) first_seconds_ = median;
      if (i == 0 || median < best_seconds_) {
        best_ = i;
        best_seconds_ = median;
      }
    }
  }

  bool empty() const { return answers_.empty(); }
  size_t answers() const { return answers_.size(); }
  double first_seconds() const { return first_seconds_; }
  void CallBest() { Call(answers_[best_]); }

 private:
  void Call(const cublasLtMatmulAlgo_t& answer) {
    Check(CublasStatus(plan_->Enqueue(answer, pointers_, site_),
                       "cublasLtMatmul"));
  }

  std::unique_ptr<MatmulPlan> plan_;
  MatmulSite site_;
  MatmulPointers pointers_;
  std::vector<cublasLtMatmulAlgo_t> answers_;
  size_t best_ = 0;
  double first_seconds_ = 0;
  double best_seconds_ = 0;
};

void RunRow(benchmark::State& state, const Row& row) {
  Operands operands(row);
  operands.Multiply();  // chooses an algorithm
  Bare bare(&operands, row.IsEmulated());
  Timer timer(operands.stream());
  const auto call = [&operands] { operands.Multiply(); };
  const auto bare_call = [&bare] { bare.CallBest(); };
  std::vector<double> ours, best, ratio, cold_ratio;
  bool bare_comes_first = false;
  for (auto _ : state) {
    double cold_ours = 0;
    const auto time_ours = [&] {
      ours.push_back(timer.BackToBack(call));
      cold_ours = timer.Cold(call);
    };
    if (bare.empty()) {
      time_ours();
    } else {
      if (!bare_comes_first) time_ours();
      best.push_back(timer.BackToBack(bare_call));
      const double cold_best = timer.Cold(bare_call);
      if (bare_comes_first) time_ours();
      bare_comes_first = !bare_comes_first;
      ratio.push_back(best.back() / ours.back());
      cold_ratio.push_back(cold_best / cold_ours);
    }
    state.SetIterationTime(ours.back());
  }
  const double tera = operands.flops() * 1e-12;
  state.counters["TFLOPs"] = tera / Median(ours);
  if (bare.empty()) return;
  state.counters["bare_first"] = tera / bare.first_seconds();
  state.counters["bare_best"] = tera / Median(best);
  state.counters["answers"] = static_cast<double>(bare.answers());
  state.counters["ratio"] = Median(ratio);
  state.counters["cold_ratio"] = Median(cold_ratio);
}

// Seconds of the calling thread per call; few enough calls that the stream's
// queue never fills up.
double HostTime(cudaStream_t stream, const std::function<void()>& call) {
  constexpr int kCalls = 200;
  CheckCuda(cudaStreamSynchronize(stream));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  CheckCuda(cudaStreamSynchronize(stream));
  return elapsed.count() / kCalls;
}

void RunHost(benchmark::State& state, const Row& row) {
  Operands operands(row);
  operands.Multiply();
  Bare bare(&operands, row.IsEmulated());
  if (bare.empty()) return state.SkipWithError("cuBLASLt has no answer");
  std::vector<double> ours, best;
  for (auto _ : state) {
    ours.push_back(
        HostTime(operands.stream(), [&operands] { operands.Multiply(); }));
    best.push_back(HostTime(operands.stream(), [&bare] { bare.CallBest(); }));
    state.SetIterationTime(ours.back());
  }
  state.counters["us"] = Median(ours) * 1e6;
  state.counters["bare_us"] = Median(best) * 1e6;
  state.counters["ratio"] = Median(ours) / Median(best);
}

void RegisterAll() {
  for (const Row& row : MatmulRows()) {
    benchmark::RegisterBenchmark(
        row.name.c_str(),
        [row](benchmark::State& state) { RunRow(state, row); })
        ->UseManualTime()
        ->Iterations(kIterations)
        ->Unit(benchmark::kMicrosecond);
  }
  for (const bool plain : {false, true}) {
    Row row;
    row.name = plain ? "host/bf16_256" : "host/e4m3_256";
    row.m = row.n = row.k = 256;
    if (plain) row.x_format = std::nullopt;
    benchmark::RegisterBenchmark(
        row.name.c_str(),
        [row](benchmark::State& state) { RunHost(state, row); })
        ->UseManualTime()
        ->Iterations(50)
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  scalekeeper::CheckCuda(cudaSetDevice(0));
  scalekeeper::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
