// Amax, decode, convert and statistics on CUDA; the casts are in cast_cuda.cu.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "base/buffer.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "numerics/convert.h"
#include "quantizer/cast_cuda.cuh"
#include "quantizer/kernels_cuda.h"
#include "quantizer/launch_cuda.cuh"

namespace scalekeeper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill the largest chips several times over.
constexpr int64_t kMaxBlocks = 132 * 8;

// Where an amax kernel leaves its result: a word that is raised, or a scratch
// whose result the last block sets (and readies the rest for the next use).
struct AmaxSink {
  uint32_t* raise = nullptr;
  AmaxScratch* set = nullptr;
};

// All threads of the block, with the block's maximum in thread 0.
__device__ __forceinline__ void Deliver(const AmaxSink& sink, uint32_t bits) {
  if (threadIdx.x != 0) return;
  if (sink.raise != nullptr) {
    device::RaiseWord(sink.raise, bits);
    return;
  }
  atomicMax(&sink.set->folding, bits);
  __threadfence();
  if (atomicAdd(&sink.set->arrived, 1u) == gridDim.x - 1) {
    sink.set->amax = atomicExch(&sink.set->folding, 0u);
    sink.set->arrived = 0;
  }
}

template <typename In>
__global__ void __launch_bounds__(kThreads)
    AmaxLinear(const uint4* __restrict__ x, int64_t vectors, AmaxSink sink,
               RunIf run) {
  if (!Runs(run)) return;
  constexpr int kUnroll = 4;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  int64_t v = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  uint32_t fold = 0;
  for (; v + (kUnroll - 1) * stride < vectors; v += kUnroll * stride) {
    uint4 loaded[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) loaded[i] = __ldg(x + v + i * stride);
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      fold = In::FoldAmax(fold, loaded[i].x);
      fold = In::FoldAmax(fold, loaded[i].y);
      fold = In::FoldAmax(fold, loaded[i].z);
      fold = In::FoldAmax(fold, loaded[i].w);
    }
  }
  for (; v < vectors; v += stride) {
    const uint4 loaded = __ldg(x + v);
    fold = In::FoldAmax(fold, loaded.x);
    fold = In::FoldAmax(fold, loaded.y);
    fold = In::FoldAmax(fold, loaded.z);
    fold = In::FoldAmax(fold, loaded.w);
  }
  Deliver(sink, device::BlockMax(In::AmaxOfFold(fold)));
}

// Any strides: consecutive threads walk consecutive columns.
template <typename In>
__global__ void __launch_bounds__(kThreads)
    AmaxAny(const typename In::Storage* __restrict__ x, int64_t rows,
            int64_t cols, int64_t row_stride, int64_t col_stride, AmaxSink sink,
            RunIf run) {
  if (!Runs(run)) return;
  uint32_t bits = 0;
  const int64_t size = rows * cols;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < size; i += stride) {
    const int64_t row = i / cols;
    const int64_t col = i - row * cols;
    bits = MaxBits(bits,
                   AmaxBits(In::Load(x[row * row_stride + col * col_stride])));
  }
  Deliver(sink, device::BlockMax(bits));
}

// out = value(x) * factor for codes (decode) and floats (convert) alike.
template <typename Load>
__global__ void __launch_bounds__(kThreads)
    ScaleElements(Load load, const float* factor, TensorView out, RunIf run) {
  if (!Runs(run)) return;
  const float scale = factor == nullptr ? 1.0f : *factor;
  const int64_t size = out.rows * out.cols;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < size; i += stride) {
    const int64_t row = i / out.cols;
    const int64_t col = i - row * out.cols;
    StoreFloat(out.dtype, load(row, col) * scale, out.data,
               row * out.row_stride + col * out.col_stride);
  }
}

struct LoadCode {
  const uint8_t* codes;
  int64_t row_stride, col_stride;
  Format format;
  __device__ float operator()(int64_t row, int64_t col) const {
    return Decode(format, codes[row * row_stride + col * col_stride]);
  }
};

struct LoadValue {
  const void* data;
  int64_t row_stride, col_stride;
  DType dtype;
  __device__ float operator()(int64_t row, int64_t col) const {
    return LoadFloat(dtype, data, row * row_stride + col * col_stride);
  }
};

// One pass of statistics, for a cast into FP8 or for storing in a wider dtype.
struct MeasureTask {
  LoadValue load;
  int64_t rows, cols;
  bool to_fp8;
  CastScale scale;  // to_fp8 only

  Format format;
  DType dtype;
  float max;
  Statistics* out;
};

__device__ float StoredValue(const MeasureTask& task, float scaled) {
  if (task.to_fp8) return Decode(task.format, Encode(task.format, scaled));
  float stored = 0;
  StoreFloat(task.dtype, scaled, &stored);
  return LoadFloat(task.dtype, &stored);
}

__device__ void AddCount(int64_t* total, uint64_t count) {
  atomicAdd(reinterpret_cast<unsigned long long*>(total),
            static_cast<unsigned long long>(count));
}

__global__ void __launch_bounds__(kThreads) MeasureKernel(MeasureTask task) {
  const float scale = task.to_fp8 ? ResolveScale(task.scale) : 1.0f;
  const float scale_inv = ScaleInverse(scale);
  uint64_t nonzero = 0, underflow = 0, saturation = 0, non_finite = 0;
  uint32_t amax = 0;
  double signal = 0, error = 0;
  const int64_t size = task.rows * task.cols;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < size; i += stride) {
    const int64_t row = i / task.cols;
    const float v = task.load(row, i - row * task.cols);
    const float scaled = v * scale;
    const float stored = StoredValue(task, scaled);
    amax = MaxBits(amax, AmaxBits(v));
    nonzero += v != 0.0f;
    underflow += v != 0.0f && stored == 0.0f;
    saturation += fabsf(scaled) > task.max;
    if (IsNonFiniteAmax(AmaxBits(v))) {
      ++non_finite;
      continue;
    }
    const double back = stored * scale_inv;
    signal += static_cast<double>(v) * v;
    error += (v - back) * (v - back);
  }
  amax = device::BlockMax(amax);
  for (int offset = 16; offset > 0; offset /= 2) {
    nonzero += __shfl_down_sync(0xFFFFFFFFu, nonzero, offset);
    underflow += __shfl_down_sync(0xFFFFFFFFu, underflow, offset);
    saturation += __shfl_down_sync(0xFFFFFFFFu, saturation, offset);
    non_finite += __shfl_down_sync(0xFFFFFFFFu, non_finite, offset);
    signal += __shfl_down_sync(0xFFFFFFFFu, signal, offset);
    error += __shfl_down_sync(0xFFFFFFFFu, error, offset);
  }
  if ((threadIdx.x & 31u) == 0) {
    AddCount(&task.out->nonzero, nonzero);
    AddCount(&task.out->underflow, underflow);
    AddCount(&task.out->saturation, saturation);
    AddCount(&task.out->non_finite, non_finite);
    atomicAdd(&task.out->signal, signal);
    atomicAdd(&task.out->error, error);
  }
  if (threadIdx.x == 0) {
    atomicMax(&task.out->amax_bits, amax);
    if (blockIdx.x == 0) {
      task.out->scale = scale;
      task.out->scale_inv = scale_inv;
    }
  }
}

unsigned StridedGrid(int64_t work) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((work + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

absl::StatusOr<Statistics> Measure(const ConstTensorView& x, MeasureTask task,
                                   Stream stream) {
  SK_ASSIGN_OR_RETURN(Allocator * allocator, DefaultAllocator(x.device));
  SK_ASSIGN_OR_RETURN(Buffer device_result,
                      Buffer::Allocate(allocator, sizeof(Statistics)));
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  Statistics result;
  result.count = x.size();
  SK_RETURN_IF_ERROR(CopyFromHost(x.device, device_result.data(), &result,
                                  sizeof(result), stream));
  task.load = {x.data, x.row_stride, x.col_stride, x.dtype};
  task.rows = x.rows;
  task.cols = x.cols;
  task.out = device_result.as<Statistics>();
  MeasureKernel<<<StridedGrid(x.size()), kThreads, 0, AsCudaStream(stream)>>>(
      task);
  SK_RETURN_IF_ERROR(LaunchStatus("measure"));
  SK_RETURN_IF_ERROR(CopyToHost(x.device, &result, device_result.data(),
                                sizeof(result), stream));
  return result;
}

absl::Status LaunchAmax(const ConstTensorView& x, const AmaxSink& sink,
                        const RunIf& run, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  return WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    constexpr int64_t kPerVector = 4 * In::kPerWord;
    const bool linear = x.contiguous() && x.size() % kPerVector == 0 &&
                        reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
    if (linear) {
      const int64_t vectors = x.size() / kPerVector;
      AmaxLinear<In>
          <<<StridedGrid(vectors), kThreads, 0, AsCudaStream(stream)>>>(
              static_cast<const uint4*>(x.data), vectors, sink, run);
    } else {
      AmaxAny<In><<<StridedGrid(x.size()), kThreads, 0, AsCudaStream(stream)>>>(
          static_cast<const typename In::Storage*>(x.data), x.rows, x.cols,
          x.row_stride, x.col_stride, sink, run);
    }
    return LaunchStatus("amax");
  });
}

}  // namespace

absl::Status Amax(const ConstTensorView& x, uint32_t* amax, const RunIf& run,
                  Stream stream) {
  if (x.empty()) return absl::OkStatus();
  return LaunchAmax(x, {amax, nullptr}, run, stream);
}

// Zero elements: one block that finds 0.
absl::Status TensorAmax(const ConstTensorView& x, AmaxScratch* scratch,
                        const RunIf& run, Stream stream) {
  return LaunchAmax(x, {nullptr, scratch}, run, stream);
}

absl::Status Decode(const ConstTensorView& codes, Format format,
                    const float* scale_inv, const TensorView& out,
                    Stream stream) {
  if (out.empty()) return absl::OkStatus();
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(out.device.index));
  const LoadCode load = {static_cast<const uint8_t*>(codes.data),
                         codes.row_stride, codes.col_stride, format};
  ScaleElements<<<StridedGrid(out.size()), kThreads, 0, AsCudaStream(stream)>>>(
      load, scale_inv, out, RunIf{});
  return LaunchStatus("decode");
}

absl::Status Convert(const ConstTensorView& x, const TensorView& out,
                     const RunIf& run, Stream stream) {
  if (out.empty()) return absl::OkStatus();
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(out.device.index));
  const LoadValue load = {x.data, x.row_stride, x.col_stride, x.dtype};
  ScaleElements<<<StridedGrid(out.size()), kThreads, 0, AsCudaStream(stream)>>>(
      load, nullptr, out, run);
  return LaunchStatus("convert");
}

absl::StatusOr<Statistics> MeasureCast(const ConstTensorView& x,
                                       const CastScale& scale, Format format,
                                       Stream stream) {
  MeasureTask task = {};
  task.scale = scale;
  task.to_fp8 = true;
  task.format = format;
  task.max = FormatMax(format);
  return Measure(x, task, stream);
}

absl::StatusOr<Statistics> MeasureConvert(const ConstTensorView& x, DType dtype,
                                          Stream stream) {
  MeasureTask task = {};
  task.dtype = dtype;
  task.max = MaxFinite(dtype);
  return Measure(x, task, stream);
}

}  // namespace scalekeeper::kernels::cuda
