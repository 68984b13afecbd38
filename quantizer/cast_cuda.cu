// Casts at memory speed. Three kernels, the same bits from each:
//
//   CastLinear   row-wise only, contiguous: 16-byte loads, four in flight.
//   CastTiled    rows of 16-byte multiples: 128 x 128 tiles; each thread holds
//                4 x 16 elements, turns 4 x 4 codes in registers and leaves
//                them in shared memory, so that both copies are written with
//                16-byte stores.
//   CastAny      everything else: one element a thread and 32 x 32 tiles.
//
// Every block finds the scale itself (quantizer/cast_scale.h); block 0 writes
// its inverse. The amax is folded on bits and raised once per block.
//
// Where the scale is made from the tensor's own amax, the same launch takes it:
// whether it must is a word of the device, so that a graph captured before the
// first update is right after it, and a step pays for one launch.
// TakeTensorAmax tells why no block waits for one that has not started. Large
// tensors under current scaling are measured by a launch of their own, which is
// faster.
#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "quantizer/cast_cuda.cuh"
#include "quantizer/kernels_cuda.h"
#include "quantizer/launch_cuda.cuh"
#include "quantizer/tile_cuda.cuh"

namespace scalekeeper::kernels::cuda {
namespace {

using device::BlockMax;
using device::EncodeWord;
using device::RaiseWord;

constexpr int kThreads = kTileThreads;

// The largest tensor, in elements, that a cast under current scaling measures
// itself: about what the chip holds in one wave of blocks.
constexpr int64_t kMeasuredByCast = int64_t{1} << 23;

// What a cast kernel needs besides its source; passed by value.
struct CastTask {
  CastScale scale;
  CastOutput out;
  RunIf run;
};

// The tensor's amax, by all blocks together; `tile_amax(t)` gives a thread's
// part of that of tile t, and there are as many tiles as blocks.
//
// A block takes tiles from a common counter until none is left, hands in what
// it found, and only then waits for the rest. What it waits for was taken by
// blocks that are running and wait for nothing before they have handed it in:
// so it ends whatever else runs on the chip and however few blocks fit.
template <typename TileAmax>
__device__ __forceinline__ uint32_t TakeTensorAmax(AmaxScratch* scratch,
                                                   TileAmax tile_amax) {
  __shared__ uint32_t shared;
  uint32_t bits = 0;
  uint32_t taken = 0;
  while (true) {
    if (threadIdx.x == 0) shared = atomicAdd(&scratch->tickets, 1u);
    __syncthreads();
    const uint32_t tile = shared;
    __syncthreads();
    if (tile >= gridDim.x) break;
    bits = MaxBits(bits, tile_amax(static_cast<int64_t>(tile)));
    ++taken;
  }
  bits = BlockMax(bits);
  if (threadIdx.x == 0) {
    if (taken != 0) {
      atomicMax(&scratch->folding, bits);
      __threadfence();
      atomicAdd(&scratch->arrived, taken);
    }
    while (*static_cast<volatile uint32_t*>(&scratch->arrived) < gridDim.x) {
      __nanosleep(50);
    }
    __threadfence();
    const uint32_t amax = *static_cast<volatile uint32_t*>(&scratch->folding);
    shared = amax;
    __threadfence();
    // The last one to have read it readies the scratch for the next cast.
    if (atomicAdd(&scratch->departed, 1u) == gridDim.x - 1) {
      *scratch = AmaxScratch{};
      scratch->amax = amax;
    }
  }
  __syncthreads();
  return shared;
}

// The scale, and its inverse written by the first block.
template <typename TileAmax>
__device__ __forceinline__ float Begin(const CastTask& task,
                                       TileAmax tile_amax) {
  const bool measures =
      task.scale.scratch != nullptr && NeedsTensorAmax(task.scale);
  const float scale =
      measures ? TensorScale(task.scale,
                             TakeTensorAmax(task.scale.scratch, tile_amax))
               : ResolveScale(task.scale);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    WriteScaleInverse(task.scale, scale);
  }
  return scale;
}

// Counts of one thread (quantizer/kernels.h, CastCounters).
struct Counts {
  uint32_t nonzero = 0, underflow = 0, saturation = 0, non_finite = 0;

  template <Format kFormat>
  __device__ __forceinline__ void Add(float x, float scaled, uint32_t code) {
    nonzero += x != 0.0f;
    underflow += (x != 0.0f) & ((code & 0x7Fu) == 0);
    saturation += fabsf(scaled) > FormatMax(kFormat);
    non_finite += IsNonFiniteAmax(AmaxBits(x));
  }
  __device__ __forceinline__ void Flush(CastCounters* out) const {
    AddOnce(&out->nonzero, nonzero);
    AddOnce(&out->underflow, underflow);
    AddOnce(&out->saturation, saturation);
    AddOnce(&out->non_finite, non_finite);
  }

 private:
  // One addition a warp; all its threads call.
  static __device__ __forceinline__ void AddOnce(uint64_t* counter,
                                                 uint32_t count) {
    const uint32_t sum = __reduce_add_sync(0xFFFFFFFFu, count);
    if ((threadIdx.x & 31u) == 0 && sum != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(counter),
                static_cast<unsigned long long>(sum));
    }
  }
};

// The codes of one 16-byte vector of In: 2 words (16-bit types) or 1 (float32).
template <typename In, Format kFormat, bool kCount>
__device__ __forceinline__ void EncodeVector(const uint4& vector, float scale,
                                             uint32_t* words, Counts* counts) {
  const uint32_t raw[4] = {vector.x, vector.y, vector.z, vector.w};
  float x[4 * In::kPerWord];
#pragma unroll
  for (int i = 0; i < 4; ++i) In::Unpack(raw[i], x + i * In::kPerWord);
#pragma unroll
  for (int w = 0; w < In::kPerWord; ++w) {
    const float* v = x + 4 * w;
    words[w] = EncodeWord<kFormat>(v[0] * scale, v[1] * scale, v[2] * scale,
                                   v[3] * scale);
    if (kCount) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        counts->Add<kFormat>(v[i], v[i] * scale, (words[w] >> (8 * i)) & 0xFFu);
      }
    }
  }
}

template <typename In>
__device__ __forceinline__ uint32_t FoldVector(uint32_t fold,
                                               const uint4& vector) {
  fold = In::FoldAmax(fold, vector.x);
  fold = In::FoldAmax(fold, vector.y);
  fold = In::FoldAmax(fold, vector.z);
  return In::FoldAmax(fold, vector.w);
}

template <typename In>
__device__ __forceinline__ void StoreWords(uint8_t* codes, int64_t vector,
                                           const uint32_t* words) {
  if constexpr (In::kPerWord == 2) {
    __stcs(reinterpret_cast<uint2*>(codes) + vector,
           make_uint2(words[0], words[1]));
  } else {
    __stcs(reinterpret_cast<unsigned*>(codes) + vector, words[0]);
  }
}

constexpr int kUnroll = 4;

// A thread's vectors of a block of CastLinear; zeros past the end.
__device__ __forceinline__ void LoadLinear(const uint4* x, int64_t vectors,
                                           int64_t first, uint4* loaded) {
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const int64_t v = first + i * kThreads;
    loaded[i] = v < vectors ? __ldcs(x + v) : make_uint4(0, 0, 0, 0);
  }
}

template <typename In, Format kFormat, bool kCount>
__global__ void __launch_bounds__(kThreads)
    CastLinear(const uint4* __restrict__ x, int64_t vectors, bool reverse,
               CastTask task) {
  if (!Runs(task.run)) return;
  const auto first_of = [](int64_t block) {
    return block * (kThreads * kUnroll) + threadIdx.x;
  };
  const float scale = Begin(task, [&](int64_t tile) {
    uint4 loaded[kUnroll];
    LoadLinear(x, vectors, first_of(tile), loaded);
    uint32_t fold = 0;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) fold = FoldVector<In>(fold, loaded[i]);
    return In::AmaxOfFold(fold);
  });
  // Reversed, the end of the tensor, which an amax pass read last and which is
  // still in the second-level cache, comes first.
  const int64_t first =
      first_of(reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  uint4 loaded[kUnroll];
  LoadLinear(x, vectors, first, loaded);
  uint32_t fold = 0;
  Counts counts;
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const int64_t v = first + i * kThreads;
    uint32_t words[In::kPerWord];
    EncodeVector<In, kFormat, kCount>(loaded[i], scale, words, &counts);
    if (v < vectors) StoreWords<In>(task.out.row_wise, v, words);
    fold = FoldVector<In>(fold, loaded[i]);
  }
  if (task.out.amax != nullptr) {
    const uint32_t amax = BlockMax(In::AmaxOfFold(fold));
    if (threadIdx.x == 0) RaiseWord(task.out.amax, amax);
  }
  if (kCount) counts.Flush(task.out.counters);
}

// x: rows x cols with cols, and rows where there is a column-wise copy,
// multiples of 16; row_stride in elements, rows 16-byte aligned.
template <typename In, Format kFormat, bool kCount>
__global__ void __launch_bounds__(kThreads)
    CastTiled(const typename In::Storage* __restrict__ x, int64_t rows,
              int64_t cols, int64_t row_stride, int64_t column_tiles,
              CastTask task) {
  if (!Runs(task.run)) return;
  __shared__ TurnedTile turned;
  constexpr int kVectors = kTileVectors<In>;
  const float scale = Begin(task, [&](int64_t tile) {
    uint4 loaded[kTileThreadRows][kVectors];
    LoadTile<In>(x, rows, cols, row_stride, PlaceOfTile(tile, column_tiles),
                 loaded);
    uint32_t fold = 0;
#pragma unroll
    for (int r = 0; r < kTileThreadRows; ++r) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        fold = FoldVector<In>(fold, loaded[r][v]);
      }
    }
    return In::AmaxOfFold(fold);
  });
  const TilePlace place = PlaceOfTile(blockIdx.x, column_tiles);
  const int64_t row = place.row;
  const int64_t col = place.col;
  uint4 loaded[kTileThreadRows][kVectors];
  LoadTile<In>(x, rows, cols, row_stride, place, loaded);
  uint32_t codes[4][4];
  uint32_t fold = 0;
  Counts counts;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      EncodeVector<In, kFormat, kCount>(loaded[r][v], scale,
                                        codes[r] + v * In::kPerWord, &counts);
      fold = FoldVector<In>(fold, loaded[r][v]);
    }
    if (task.out.row_wise != nullptr && col < cols && row + r < rows) {
      __stcs(
          reinterpret_cast<uint4*>(task.out.row_wise + (row + r) * cols + col),
          make_uint4(codes[r][0], codes[r][1], codes[r][2], codes[r][3]));
    }
  }
  if (task.out.column_wise != nullptr) {
    turned.Put(codes);
    __syncthreads();
    turned.Store(task.out.column_wise, rows, cols, place);
  }
  if (task.out.amax != nullptr) {
    const uint32_t amax = BlockMax(In::AmaxOfFold(fold));
    if (threadIdx.x == 0) RaiseWord(task.out.amax, amax);
  }
  if (kCount) counts.Flush(task.out.counters);
}

// Any strides, any sizes, any alignment.
template <typename In, Format kFormat>
__global__ void __launch_bounds__(kThreads)
    CastAny(const typename In::Storage* __restrict__ x, int64_t rows,
            int64_t cols, int64_t row_stride, int64_t col_stride,
            int64_t column_tiles, CastTask task) {
  if (!Runs(task.run)) return;
  constexpr int kSide = 32;
  __shared__ uint8_t tile[kSide][kSide + 1];
  const int lane = threadIdx.x & 31;
  const float scale = Begin(task, [&](int64_t tile_index) {
    const int64_t col = (tile_index % column_tiles) * kSide + lane;
    uint32_t bits = 0;
    for (int r = threadIdx.x >> 5; r < kSide; r += kThreads / 32) {
      const int64_t row = (tile_index / column_tiles) * kSide + r;
      if (row < rows && col < cols) {
        bits = MaxBits(
            bits, AmaxBits(In::Load(x[row * row_stride + col * col_stride])));
      }
    }
    return bits;
  });
  const int64_t row0 = (blockIdx.x / column_tiles) * kSide;
  const int64_t col0 = (blockIdx.x % column_tiles) * kSide;
  uint32_t amax = 0;
  Counts counts;
  for (int r = threadIdx.x >> 5; r < kSide; r += kThreads / 32) {
    const int64_t row = row0 + r;
    const int64_t col = col0 + lane;
    if (row < rows && col < cols) {
      const float value = In::Load(x[row * row_stride + col * col_stride]);
      const uint8_t code = static_cast<uint8_t>(
          device::EncodePair<kFormat>(value * scale, 0.0f));
      amax = MaxBits(amax, AmaxBits(value));
      counts.Add<kFormat>(value, value * scale, code);
      tile[r][lane] = code;
      if (task.out.row_wise != nullptr) {
        task.out.row_wise[row * cols + col] = code;
      }
    }
  }
  if (task.out.column_wise != nullptr) {
    __syncthreads();
    for (int c = threadIdx.x >> 5; c < kSide; c += kThreads / 32) {
      const int64_t row = row0 + lane;
      const int64_t col = col0 + c;
      if (row < rows && col < cols) {
        task.out.column_wise[col * rows + row] = tile[lane][c];
      }
    }
  }
  if (task.out.amax != nullptr) {
    amax = BlockMax(amax);
    if (threadIdx.x == 0) RaiseWord(task.out.amax, amax);
  }
  if (task.out.counters != nullptr) counts.Flush(task.out.counters);
}

__global__ void WriteScaleOnly(CastTask task) {
  if (Runs(task.run)) Begin(task, [](int64_t) { return 0u; });
}

bool Aligned16(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

template <typename In, Format kFormat, bool kCount>
absl::Status Launch(const ConstTensorView& x, const CastTask& task,
                    cudaStream_t stream) {
  using Storage = typename In::Storage;
  const auto* data = static_cast<const Storage*>(x.data);
  constexpr int64_t kPerVector = 4 * In::kPerWord;
  const bool aligned = Aligned16(data) && x.col_stride == 1 &&
                       Aligned16(task.out.row_wise) &&
                       Aligned16(task.out.column_wise);
  if (aligned && x.contiguous() && task.out.column_wise == nullptr &&
      x.size() % kPerVector == 0) {
    const int64_t vectors = x.size() / kPerVector;
    SK_ASSIGN_OR_RETURN(const unsigned blocks,
                        GridSize(vectors, kThreads * 4, "cast"));
    CastLinear<In, kFormat, kCount><<<blocks, kThreads, 0, stream>>>(
        reinterpret_cast<const uint4*>(data), vectors,
        /*reverse=*/task.scale.kind == CastScale::Kind::kCurrent, task);
  } else if (aligned && x.cols % 16 == 0 && x.row_stride % kPerVector == 0 &&
             (task.out.column_wise == nullptr || x.rows % 16 == 0)) {
    const int64_t column_tiles = (x.cols + kTile - 1) / kTile;
    const int64_t row_tiles = (x.rows + kTile - 1) / kTile;
    SK_ASSIGN_OR_RETURN(const unsigned blocks,
                        GridSize(row_tiles * column_tiles, 1, "cast"));
    CastTiled<In, kFormat, kCount><<<blocks, kThreads, 0, stream>>>(
        data, x.rows, x.cols, x.row_stride, column_tiles, task);
  } else {
    const int64_t column_tiles = (x.cols + 31) / 32;
    const int64_t row_tiles = (x.rows + 31) / 32;
    SK_ASSIGN_OR_RETURN(const unsigned blocks,
                        GridSize(row_tiles * column_tiles, 1, "cast"));
    CastAny<In, kFormat><<<blocks, kThreads, 0, stream>>>(
        data, x.rows, x.cols, x.row_stride, x.col_stride, column_tiles, task);
  }
  return LaunchStatus("cast");
}

template <typename In, Format kFormat>
absl::Status LaunchCounting(const ConstTensorView& x, const CastTask& task,
                            cudaStream_t stream) {
  if (task.out.counters != nullptr) {
    return Launch<In, kFormat, true>(x, task, stream);
  }
  return Launch<In, kFormat, false>(x, task, stream);
}

}  // namespace

absl::Status Cast(const ConstTensorView& x, const CastScale& scale,
                  Format format, const CastOutput& out, const RunIf& run,
                  Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  CastTask task = {scale, out, run};
  const cudaStream_t cuda_stream = AsCudaStream(stream);
  if (scale.kind == CastScale::Kind::kCurrent && scale.scratch != nullptr &&
      x.size() > kMeasuredByCast) {
    SK_RETURN_IF_ERROR(cuda::TensorAmax(x, scale.scratch, run, stream));
    task.scale.tensor_amax = &scale.scratch->amax;
    task.scale.scratch = nullptr;
  }
  if (x.empty()) {
    WriteScaleOnly<<<1, 32, 0, cuda_stream>>>(task);
    return LaunchStatus("cast of zero elements");
  }
  return WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    return format == Format::kE4M3
               ? LaunchCounting<In, Format::kE4M3>(x, task, cuda_stream)
               : LaunchCounting<In, Format::kE5M2>(x, task, cuda_stream);
  });
}

}  // namespace scalekeeper::kernels::cuda
