// NVFP4's 1 x 16 blocks at memory speed with the options that the tiles of
// block_cast_cuda.cu leave out: stochastic rounding and the Hadamard transform.
//
//   CastSixteenTilesKernel  128 x 128 tiles, both uses from one read of x.
//   SixteenAmaxKernel       the amaxes before and after the transform.
//
// A thread holds 16 rows x 4 columns, which is what it needs of a column-wise
// copy: four whole blocks, transformed, measured and encoded by itself. A
// row-wise block lies in four neighbouring lanes, and a warp holds 16 rows.
#include <cstdint>
#include <type_traits>

#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "numerics/hadamard.h"
#include "quantizer/block_cast_cuda.h"
#include "quantizer/block_factor.h"
#include "quantizer/cast_cuda.cuh"
#include "quantizer/launch_cuda.cuh"

namespace scalekeeper::kernels::cuda {
namespace {

using device::RaiseWord;

constexpr int kThreads = 256;
constexpr int kSide = 128;   // of a tile
constexpr int kBlock = 16;   // elements
constexpr int kColumns = 4;  // of a thread
constexpr int kParts = kSide / kBlock;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

template <typename In>
constexpr int kWords = kColumns / In::kPerWord;
template <typename In>
constexpr int kBlocksPerSm = In::kPerWord == 2 ? 3 : 2;

// Where a thread's part of a tile lies.
struct Place {
  int64_t row0, col0;  // of the tile
  int64_t row, col;    // of the thread
};

__device__ __forceinline__ Place PlaceOf(int64_t tile, int64_t column_tiles) {
  Place place;
  place.row0 = tile / column_tiles * kSide;
  place.col0 = tile % column_tiles * kSide;
  place.row = place.row0 + (threadIdx.x >> 5) * kBlock;
  place.col = place.col0 + (threadIdx.x & 31) * kColumns;
  return place;
}

// cols is a multiple of 16. What lies outside is 0.
template <typename In>
__device__ __forceinline__ void Load(const typename In::Storage* x,
                                     int64_t rows, int64_t cols,
                                     int64_t row_stride, const Place& place,
                                     uint32_t (&held)[kBlock][kWords<In>]) {
#pragma unroll
  for (int r = 0; r < kBlock; ++r) {
    const bool inside = place.col < cols && place.row + r < rows;
    const auto* at = x + (place.row + r) * row_stride + place.col;
    if constexpr (In::kPerWord == 2) {
      const uint2 v = inside ? __ldcs(reinterpret_cast<const uint2*>(at))
                             : make_uint2(0, 0);
      held[r][0] = v.x;
      held[r][1] = v.y;
    } else {
      const uint4 v = inside ? __ldcs(reinterpret_cast<const uint4*>(at))
                             : make_uint4(0, 0, 0, 0);
      held[r][0] = v.x;
      held[r][1] = v.y;
      held[r][2] = v.z;
      held[r][3] = v.w;
    }
  }
}

template <typename In>
__device__ __forceinline__ uint32_t RowAmax(const uint32_t (&row)[kWords<In>]) {
  uint32_t fold = 0;
#pragma unroll
  for (int w = 0; w < kWords<In>; ++w) fold = In::FoldAmax(fold, row[w]);
  return In::AmaxOfFold(fold);
}

// Rounds to the dtype; any NaN will do.
template <typename In>
__device__ __forceinline__ float Rounded(float value) {
  if constexpr (std::is_same_v<In, device::BF16>) {
    return __bfloat162float(__float2bfloat16_rn(value));
  } else if constexpr (std::is_same_v<In, device::F16>) {
    return __half2float(__float2half_rn(value));
  } else {
    return value;
  }
}

// The thread's column c, transformed if asked for, and its amax.
template <typename In, bool kHadamard>
__device__ __forceinline__ uint32_t
Column(const uint32_t (&held)[kBlock][kWords<In>], int c, float (&v)[kBlock]) {
  uint32_t amax = 0;
#pragma unroll
  for (int r = 0; r < kBlock; ++r) {
    float pair[In::kPerWord];
    In::Unpack(held[r][c / In::kPerWord], pair);
    v[r] = pair[c % In::kPerWord];
  }
  if constexpr (kHadamard) HadamardTransform(v);
#pragma unroll
  for (int r = 0; r < kBlock; ++r) {
    if constexpr (kHadamard) v[r] = Rounded<In>(v[r]);
    amax = MaxBits(amax, AmaxBits(v[r]));
  }
  return amax;
}

// Four codes of v[i] * scale, the first in the lowest nibble; `quad` counts
// fours of the use's elements.
template <bool kStochastic>
__device__ __forceinline__ uint32_t EncodeFour(const float* v, float scale,
                                               const BlockCastSpec& spec,
                                               int64_t step, int64_t quad) {
  uint32_t codes = 0;
  if constexpr (kStochastic) {
    const RandomWords draws = RandomDraws(spec.random_key, step, quad);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      codes |= static_cast<uint32_t>(
                   EncodeE2M1Stochastic(v[i] * scale, draws.words[i]))
               << (4 * i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      codes |= static_cast<uint32_t>(EncodeE2M1(v[i] * scale)) << (4 * i);
    }
  }
  return codes;
}

// amax[r] of four neighbouring lanes, reduced so that each lane has four rows
// of them: 4 * (lane % 4) and on.
__device__ __forceinline__ void ReduceRows(const uint32_t (&amax)[kBlock],
                                           uint32_t (&mine)[4]) {
  const bool upper = (threadIdx.x & 2) != 0;
  const bool odd = (threadIdx.x & 1) != 0;
  uint32_t half[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t sent = upper ? amax[i] : amax[i + 8];
    const uint32_t kept = upper ? amax[i + 8] : amax[i];
    half[i] = MaxBits(kept, __shfl_xor_sync(kAllLanes, sent, 2));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t sent = odd ? half[i] : half[i + 4];
    const uint32_t kept = odd ? half[i + 4] : half[i];
    mine[i] = MaxBits(kept, __shfl_xor_sync(kAllLanes, sent, 1));
  }
}

// Passed by value.
struct SixteenTask {
  BlockCastSpec spec;
  BlockCastOutput out;
  RunIf run;
};

// S_enc and its inverse, which the first thread writes.
__device__ __forceinline__ TensorFactor Begin(const BlockUse& use,
                                              const BlockCastSpec& spec) {
  const TensorFactor tensor = TensorFactorOf(use, spec);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *use.scales.tensor_scale_inv = tensor.scale_inv;
  }
  return tensor;
}

// A column-wise copy on its way: [column][16 rows], eight bytes each. A gap
// after four columns keeps the lanes of a warp in different banks.
struct TurnedCodes {
  uint2 units[kSide * kParts + kSide / kColumns];
  uint8_t scales[kSide][kParts];

  static __device__ __forceinline__ int At(int column, int part) {
    return column * kParts + column / kColumns + part;
  }
};

template <typename In, bool kStochastic, bool kHadamard>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm<In>)
    CastSixteenTilesKernel(const typename In::Storage* __restrict__ x,
                           int64_t rows, int64_t cols, int64_t row_stride,
                           int64_t column_tiles,
                           const __grid_constant__ SixteenTask task) {
  if (!Runs(task.run)) return;
  __shared__ TurnedCodes turned;
  const BlockUse& direct = task.out.row_wise;
  const BlockUse& column_wise = task.out.column_wise;
  const int64_t step = kStochastic ? *task.spec.step : 0;
  const Place place = PlaceOf(blockIdx.x, column_tiles);
  const int lane = threadIdx.x & 31;
  const int part = threadIdx.x >> 5;
  const bool inside = place.col < cols;

  uint32_t held[kBlock][kWords<In>];
  Load<In>(x, rows, cols, row_stride, place, held);

  if (direct.codes != nullptr || task.out.amax != nullptr) {
    uint32_t amax[kBlock];
#pragma unroll
    for (int r = 0; r < kBlock; ++r) amax[r] = RowAmax<In>(held[r]);
    uint32_t mine[4];
    ReduceRows(amax, mine);
    if (task.out.amax != nullptr) {
      const uint32_t all = device::BlockMax(
          MaxBits(MaxBits(mine[0], mine[1]), MaxBits(mine[2], mine[3])));
      if (threadIdx.x == 0) RaiseWord(task.out.amax, all);
    }
    if (direct.codes != nullptr) {
      const TensorFactor tensor = Begin(direct, task.spec);
      float scale[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const BlockFactor f =
            FactorFromAmax(ScaleType::kE4M3, mine[i], tensor, task.spec);
        scale[i] = f.scale;
        const int64_t row = place.row + (lane & 3) * 4 + i;
        if (inside && row < rows) {
          PutScale(direct.scales, row, place.col / kBlock, f);
        }
      }
#pragma unroll
      for (int r = 0; r < kBlock; ++r) {
        const float s =
            __shfl_sync(kAllLanes, scale[r % 4], (lane & ~3) | (r / 4));
        float v[kColumns];
#pragma unroll
        for (int w = 0; w < kWords<In>; ++w) {
          In::Unpack(held[r][w], v + w * In::kPerWord);
        }
        const int64_t quad = ((place.row + r) * cols + place.col) / 4;
        const uint32_t codes =
            EncodeFour<kStochastic>(v, s, task.spec, step, quad);
        if (inside && place.row + r < rows) {
          __stcs(reinterpret_cast<uint16_t*>(direct.codes) + quad,
                 static_cast<uint16_t>(codes));
        }
      }
    }
  }
  if (column_wise.codes == nullptr) return;

  const TensorFactor tensor = Begin(column_wise, task.spec);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    float v[kBlock];
    const uint32_t amax = Column<In, kHadamard>(held, c, v);
    const BlockFactor f =
        FactorFromAmax(ScaleType::kE4M3, amax, tensor, task.spec);
    const int64_t quad = ((place.col + c) * rows + place.row) / 4;
    uint32_t codes[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      codes[q] = EncodeFour<kStochastic>(v + 4 * q, f.scale, task.spec, step,
                                         quad + q);
    }
    const int column = lane * kColumns + c;
    turned.scales[column][part] = f.byte;
    turned.units[TurnedCodes::At(column, part)] =
        make_uint2(codes[0] | (codes[1] << 16), codes[2] | (codes[3] << 16));
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSide * kParts / kThreads; ++i) {
    const int index = threadIdx.x + i * kThreads;
    const int64_t column = place.col0 + index / kParts;
    const int64_t row = place.row0 + index % kParts * kBlock;
    if (column >= cols || row >= rows) continue;
    __stcs(
        reinterpret_cast<uint2*>(column_wise.codes + (column * rows + row) / 2),
        turned.units[TurnedCodes::At(index / kParts, index % kParts)]);
    BlockFactor f;
    f.byte = turned.scales[index / kParts][index % kParts];
    PutScale(column_wise.scales, column, row / kBlock, f);
  }
}

template <typename In>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm<In>)
    SixteenAmaxKernel(const typename In::Storage* __restrict__ x, int64_t rows,
                      int64_t cols, int64_t row_stride, int64_t column_tiles,
                      TensorAmaxWords words, RunIf run) {
  if (!Runs(run)) return;
  uint32_t held[kBlock][kWords<In>];
  Load<In>(x, rows, cols, row_stride, PlaceOf(blockIdx.x, column_tiles), held);
  if (words.row_wise != nullptr) {
    uint32_t amax = 0;
#pragma unroll
    for (int r = 0; r < kBlock; ++r) amax = MaxBits(amax, RowAmax<In>(held[r]));
    amax = device::BlockMax(amax);
    if (threadIdx.x == 0) RaiseWord(words.row_wise, amax);
  }
  uint32_t amax = 0;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    float v[kBlock];
    amax = MaxBits(amax, Column<In, true>(held, c, v));
  }
  amax = device::BlockMax(amax);
  if (threadIdx.x == 0) RaiseTransformed(words, amax);
}

int64_t ColumnTiles(const ConstTensorView& x) {
  return (x.cols + kSide - 1) / kSide;
}

absl::StatusOr<unsigned> TilesOf(const ConstTensorView& x) {
  return GridSize((x.rows + kSide - 1) / kSide * ColumnTiles(x), 1,
                  "NVFP4 tiles");
}

template <typename In, bool kStochastic, bool kHadamard>
void Launch(const ConstTensorView& x, const SixteenTask& task, unsigned blocks,
            cudaStream_t stream) {
  CastSixteenTilesKernel<In, kStochastic, kHadamard>
      <<<blocks, kThreads, 0, stream>>>(
          static_cast<const typename In::Storage*>(x.data), x.rows, x.cols,
          x.row_stride, ColumnTiles(x), task);
}

}  // namespace

bool CanCastSixteenTiles(const ConstTensorView& x, const BlockCastSpec& spec,
                         const BlockCastOutput& out) {
  const BlockUse& source =
      out.row_wise.codes != nullptr ? out.row_wise : out.column_wise;
  return source.scales.type == ScaleType::kE4M3 &&
         source.scales.block_rows == 1 && RowsAreVectors(x) &&
         Aligned16(out.row_wise.codes) && Aligned16(out.column_wise.codes) &&
         (out.column_wise.codes == nullptr || x.rows % kBlock == 0) &&
         out.counters == nullptr && !spec.four_over_six &&
         !out.row_wise.hadamard;
}

absl::Status CastSixteenTiles(const ConstTensorView& x,
                              const BlockCastSpec& spec,
                              const BlockCastOutput& out, const RunIf& run,
                              Stream stream) {
  SK_ASSIGN_OR_RETURN(const unsigned blocks, TilesOf(x));
  const SixteenTask task = {spec, out, run};
  const cudaStream_t s = AsCudaStream(stream);
  const bool hadamard = out.column_wise.hadamard;
  return WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    if (spec.stochastic_rounding) {
      hadamard ? Launch<In, true, true>(x, task, blocks, s)
               : Launch<In, true, false>(x, task, blocks, s);
    } else {
      hadamard ? Launch<In, false, true>(x, task, blocks, s)
               : Launch<In, false, false>(x, task, blocks, s);
    }
    return LaunchStatus("NVFP4 cast");
  });
}

absl::Status RaiseHadamardAmaxes(const ConstTensorView& x,
                                 const TensorAmaxWords& words, const RunIf& run,
                                 Stream stream) {
  SK_ASSIGN_OR_RETURN(const unsigned blocks, TilesOf(x));
  return WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    SixteenAmaxKernel<In><<<blocks, kThreads, 0, AsCudaStream(stream)>>>(
        static_cast<const typename In::Storage*>(x.data), x.rows, x.cols,
        x.row_stride, ColumnTiles(x), words, run);
    return LaunchStatus("Hadamard amaxes");
  });
}

}  // namespace scalekeeper::kernels::cuda
