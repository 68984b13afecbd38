// Block casts at memory speed: x is read once.
//
//   CastTileKernel  128 x 128 tiles (tile_cuda.cuh), any blocks that lie in
//                   one: a thread's 4 x 16 values stay in registers while the
//                   blocks' amaxes are folded over lanes, warps or the tile.
//                   Whole-row scales are known before.
//   LineAmaxKernel  the same tiles, a strip of them a block: amaxes of rows and
//                   columns.
//   CastRowsKernel  a row a block: its values stay in registers between its
//                   amax and its codes.
#include <algorithm>
#include <cstdint>

#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "quantizer/block_cast_cuda.h"
#include "quantizer/block_factor.h"
#include "quantizer/cast_cuda.cuh"
#include "quantizer/launch_cuda.cuh"
#include "quantizer/tile_cuda.cuh"

namespace scalekeeper::kernels::cuda {
namespace {

using device::EncodeWord;
using device::RaiseWord;

// Passed by value.
struct BlockTask {
  BlockCastSpec spec;
  BlockCastOutput out;
  RunIf run;
};

// The blocks of a kernel.
enum class Blocks { kLine, k1x128, k128x128, k1x32, k32x32, k1x16, k16x16 };

SK_HOST_DEVICE constexpr int BlockSide(Blocks blocks) {
  switch (blocks) {
    case Blocks::k1x128:
    case Blocks::k128x128:
      return 128;
    case Blocks::k1x32:
    case Blocks::k32x32:
      return 32;
    default:
      return 16;
  }
}
SK_HOST_DEVICE constexpr bool IsSquare(Blocks blocks) {
  return blocks == Blocks::k128x128 || blocks == Blocks::k32x32 ||
         blocks == Blocks::k16x16;
}
SK_HOST_DEVICE constexpr ScaleType TypeOf(Blocks blocks) {
  switch (blocks) {
    case Blocks::k1x32:
    case Blocks::k32x32:
      return ScaleType::kE8M0;
    case Blocks::k1x16:
    case Blocks::k16x16:
      return ScaleType::kE4M3;
    default:
      return ScaleType::kFloat;
  }
}
SK_HOST_DEVICE constexpr bool IsPacked(Blocks blocks) {
  return TypeOf(blocks) == ScaleType::kE4M3;
}

// Four codes, a byte each, the first in the lowest.
template <Blocks kBlocks>
__device__ __forceinline__ uint32_t EncodeFour(Format format, const float* v,
                                               float a, float b, float c,
                                               float d) {
  if constexpr (IsPacked(kBlocks)) {
    return EncodeE2M1(v[0] * a) | (EncodeE2M1(v[1] * b) << 8) |
           (EncodeE2M1(v[2] * c) << 16) | (EncodeE2M1(v[3] * d) << 24);
  } else {
    return format == Format::kE4M3
               ? EncodeWord<Format::kE4M3>(v[0] * a, v[1] * b, v[2] * c,
                                           v[3] * d)
               : EncodeWord<Format::kE5M2>(v[0] * a, v[1] * b, v[2] * c,
                                           v[3] * d);
  }
}

// The low nibbles of four bytes, in 16 bits.
__device__ __forceinline__ uint32_t PackNibbles(uint32_t word) {
  const uint32_t pairs = word | (word >> 4);
  return __byte_perm(pairs, 0, 0x4420);
}

__device__ __forceinline__ uint32_t WordOf(const uint4& v, int i) {
  return i == 0 ? v.x : (i == 1 ? v.y : (i == 2 ? v.z : v.w));
}

// A thread's values of one row: 16 columns in 16 / kPerWord words.
template <typename In>
struct RowWords {
  static constexpr int kWords = kTileThreadCols / In::kPerWord;

  static __device__ __forceinline__ uint32_t
  Get(const uint4 (&row)[kTileVectors<In>], int i) {
    return WordOf(row[i / 4], i % 4);
  }
  // Four values, 4 w .. 4 w + 3.
  static __device__ __forceinline__ void Four(
      const uint4 (&row)[kTileVectors<In>], int w, float* v) {
#pragma unroll
    for (int i = 0; i < 4 / In::kPerWord; ++i) {
      In::Unpack(Get(row, w * (4 / In::kPerWord) + i), v + i * In::kPerWord);
    }
  }
};

// Folds a thread's rows into the amaxes of its columns, as packed words.
template <typename In>
__device__ __forceinline__ void FoldColumns(
    const uint4 (&loaded)[kTileThreadRows][kTileVectors<In>],
    uint32_t (&fold)[RowWords<In>::kWords]) {
#pragma unroll
  for (int i = 0; i < RowWords<In>::kWords; ++i) {
#pragma unroll
    for (int r = 0; r < kTileThreadRows; ++r) {
      fold[i] = In::FoldAmax(fold[i], RowWords<In>::Get(loaded[r], i));
    }
  }
}

// amax[w][c] = that of column c of the tile in the rows of warp w.
template <typename In>
__device__ __forceinline__ void PutColumnAmaxes(
    uint32_t (&fold)[RowWords<In>::kWords], uint32_t (*amax)[kTile]) {
  constexpr int kWords = RowWords<In>::kWords;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    fold[i] = In::FoldAmax(fold[i], __shfl_xor_sync(0xFFFFFFFFu, fold[i], 8));
    fold[i] = In::FoldAmax(fold[i], __shfl_xor_sync(0xFFFFFFFFu, fold[i], 16));
  }
  // The four lanes that hold the same share the columns.
  const int part = (threadIdx.x & 31) >> 3;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if (i / (kWords / 4) != part) continue;
#pragma unroll
    for (int h = 0; h < In::kPerWord; ++h) {
      const uint32_t half =
          In::kPerWord == 1 ? fold[i] : fold[i] & (h == 0 ? 0xFFFFu : ~0xFFFFu);
      amax[threadIdx.x >> 5][(threadIdx.x & 7) * 16 + i * In::kPerWord + h] =
          In::AmaxOfFold(half);
    }
  }
}

// Of a thread's values of one row.
template <typename In>
__device__ __forceinline__ uint32_t
RowAmax(const uint4 (&row)[kTileVectors<In>]) {
  uint32_t fold = 0;
#pragma unroll
  for (int i = 0; i < RowWords<In>::kWords; ++i) {
    fold = In::FoldAmax(fold, RowWords<In>::Get(row, i));
  }
  return In::AmaxOfFold(fold);
}

// Shared memory of a tile, used for one thing after the other.
union TileShared {
  TurnedTile turned;
  // E2M1: [column][row / 4], 16 bits each; 8-byte units exchanged.
  uint16_t packed[kTile * kTile / 4];
  struct {
    uint32_t amax[8][kTile];  // of each warp's 16 rows, per column
    float scale[8][kTile];    // of each block of rows, per column
  } columns;
  uint32_t warps[8][8];  // of each warp's 16 rows, per group of 16 columns
};

// The entries of a square block in the rows first .. first + count - 1 of a
// use's codes: each row's where scales are tiled, else the block's own by the
// thread that has its first row.
template <int kSide>
__device__ __forceinline__ void WriteSquare(const BlockScales& scales,
                                            int64_t first, int count,
                                            int64_t code_rows, int64_t grid_col,
                                            const BlockFactor& f) {
  if (scales.layout == ScaleLayout::kStrided) {
    if (first % kSide == 0) {
      PutScale(scales, first / kSide, grid_col, f);
    }
    return;
  }
  for (int i = 0; i < count; ++i) {
    if (first + i < code_rows) PutScale(scales, first + i, grid_col, f);
  }
}

// Blocks of threads that are to fit on a multiprocessor: as many as need no
// spilling.
template <typename In>
constexpr int kTileBlocksPerSm = In::kPerWord == 2 ? 3 : 2;

template <typename In, Blocks kBlocks>
__global__ void __launch_bounds__(kTileThreads, kTileBlocksPerSm<In>)
    CastTileKernel(const typename In::Storage* __restrict__ x, int64_t rows,
                   int64_t cols, int64_t row_stride, int64_t column_tiles,
                   const __grid_constant__ BlockTask task) {
  if (!Runs(task.run)) return;
  constexpr int kSide = BlockSide(kBlocks);
  constexpr ScaleType kType = TypeOf(kBlocks);
  constexpr int kWords = RowWords<In>::kWords;
  __shared__ TileShared shared;
  const BlockUse& direct = task.out.row_wise;
  const BlockUse& turned = task.out.column_wise;
  const TilePlace place = PlaceOfTile(blockIdx.x, column_tiles);
  const int group = threadIdx.x & 7;
  const int quad = threadIdx.x >> 3;
  const int warp = threadIdx.x >> 5;
  const bool inside = place.col < cols;

  uint4 loaded[kTileThreadRows][kTileVectors<In>];
  LoadTile<In>(x, rows, cols, row_stride, place, loaded);

  // Amaxes of the thread's rows, and of its columns as packed words.
  uint32_t row_amax[kTileThreadRows];
#pragma unroll
  for (int r = 0; r < kTileThreadRows; ++r) {
    row_amax[r] = RowAmax<In>(loaded[r]);
  }
  if (task.out.amax != nullptr) {
    const uint32_t own = MaxBits(MaxBits(row_amax[0], row_amax[1]),
                                 MaxBits(row_amax[2], row_amax[3]));
    const uint32_t amax = device::BlockMax(own);
    if (threadIdx.x == 0) RaiseWord(task.out.amax, amax);
  }

  const BlockUse& source = direct.codes != nullptr ? direct : turned;
  TensorFactor tensor;
  if constexpr (kType == ScaleType::kE4M3) {
    tensor = TensorFactorOf(source, task.spec);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      *source.scales.tensor_scale_inv = tensor.scale_inv;
      if (IsSquare(kBlocks) && turned.codes != nullptr) {
        *turned.scales.tensor_scale_inv = tensor.scale_inv;
      }
    }
  }

  // Row-wise codes; of square blocks both uses'.
  uint32_t codes[kTileThreadRows][4];
  if (IsSquare(kBlocks) || direct.codes != nullptr) {
    BlockFactor factors[kTileThreadRows];
    if constexpr (IsSquare(kBlocks)) {
      uint32_t amax = MaxBits(MaxBits(row_amax[0], row_amax[1]),
                              MaxBits(row_amax[2], row_amax[3]));
      // The warp's 16 rows, then as many columns as a block has.
      amax = MaxBits(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, 8));
      amax = MaxBits(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, 16));
#pragma unroll
      for (int lanes = 1; lanes < kSide / 16; lanes *= 2) {
        amax = MaxBits(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, lanes));
      }
      if constexpr (kSide > 16) {
        if ((threadIdx.x & 31) < 8) shared.warps[warp][group] = amax;
        __syncthreads();
        constexpr int kWarps = kSide / 16;
        const int first = warp / kWarps * kWarps;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          amax = MaxBits(amax, shared.warps[first + w][group]);
        }
        __syncthreads();
      }
      factors[0] = FactorFromAmax(kType, amax, tensor, task.spec);
#pragma unroll
      for (int r = 1; r < kTileThreadRows; ++r) factors[r] = factors[0];
      const int64_t block_col = place.col / kSide;
      const int64_t block_row = place.row / kSide;
      if (direct.codes != nullptr && inside && place.row < rows &&
          place.col % kSide == 0) {
        WriteSquare<kSide>(direct.scales, place.row, kTileThreadRows, rows,
                           block_col, factors[0]);
      }
      if (turned.codes != nullptr && inside && place.row < rows &&
          place.row % kSide == 0) {
        WriteSquare<kSide>(turned.scales, place.col, kTileThreadCols, cols,
                           block_row, factors[0]);
      }
    } else {
#pragma unroll
      for (int r = 0; r < kTileThreadRows; ++r) {
        uint32_t amax = row_amax[r];
        const bool exists = place.row + r < rows;
        if constexpr (kBlocks == Blocks::kLine) {
          amax = exists ? direct.line_amax[place.row + r] : 0;
        } else {
#pragma unroll
          for (int lanes = 1; lanes < kSide / 16; lanes *= 2) {
            amax = MaxBits(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, lanes));
          }
        }
        factors[r] = FactorFromAmax(kType, amax, tensor, task.spec);
        const bool first =
            kBlocks == Blocks::kLine ? place.col == 0 : place.col % kSide == 0;
        if (exists && inside && first) {
          PutScale(direct.scales, place.row + r,
                   kBlocks == Blocks::kLine ? 0 : place.col / kSide,
                   factors[r]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kTileThreadRows; ++r) {
      const float s = factors[r].scale;
      const bool stored =
          direct.codes != nullptr && inside && place.row + r < rows;
      const int64_t at = (place.row + r) * cols + place.col;
      if constexpr (IsPacked(kBlocks) && !IsSquare(kBlocks) &&
                    In::kPerWord == 2) {
        uint32_t packed[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4& vector = loaded[r][half];
          const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
          float v[8];
#pragma unroll
          for (int w = 0; w < 4; ++w) In::Unpack(words[w], v + 2 * w);
          packed[half] = device::EncodeE2M1Word(words, v, s);
        }
        if (stored) {
          __stcs(reinterpret_cast<uint2*>(direct.codes + at / 2),
                 make_uint2(packed[0], packed[1]));
        }
      } else {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          float v[4];
          RowWords<In>::Four(loaded[r], w, v);
          codes[r][w] = EncodeFour<kBlocks>(task.spec.format, v, s, s, s, s);
        }
        if (!stored) continue;
        if constexpr (IsPacked(kBlocks)) {
          __stcs(
              reinterpret_cast<uint2*>(direct.codes + at / 2),
              make_uint2(
                  PackNibbles(codes[r][0]) | (PackNibbles(codes[r][1]) << 16),
                  PackNibbles(codes[r][2]) | (PackNibbles(codes[r][3]) << 16)));
        } else {
          __stcs(
              reinterpret_cast<uint4*>(direct.codes + at),
              make_uint4(codes[r][0], codes[r][1], codes[r][2], codes[r][3]));
        }
      }
    }
  }
  if (turned.codes == nullptr) return;

  if constexpr (!IsSquare(kBlocks)) {
    if constexpr (kType == ScaleType::kE4M3) {
      tensor = TensorFactorOf(turned, task.spec);
      if (blockIdx.x == 0 && threadIdx.x == 0) {
        *turned.scales.tensor_scale_inv = tensor.scale_inv;
      }
    }
    constexpr int kRowBlocks = kBlocks == Blocks::kLine ? 1 : kTile / kSide;
    if constexpr (kBlocks != Blocks::kLine) {
      uint32_t fold[kWords] = {};
      FoldColumns<In>(loaded, fold);
      PutColumnAmaxes<In>(fold, shared.columns.amax);
      __syncthreads();
    }
    for (int i = threadIdx.x; i < kRowBlocks * kTile; i += kTileThreads) {
      // Neighbours write neighbouring entries of a column.
      const int column = i / kRowBlocks;
      const int block = i % kRowBlocks;
      const bool exists =
          place.col0 + column < cols && place.row0 + block * kSide < rows;
      uint32_t amax = 0;
      if constexpr (kBlocks == Blocks::kLine) {
        if (exists) amax = turned.line_amax[place.col0 + column];
      } else {
#pragma unroll
        for (int w = 0; w < kSide / 16; ++w) {
          amax = MaxBits(amax,
                         shared.columns.amax[block * (kSide / 16) + w][column]);
        }
      }
      const BlockFactor f = FactorFromAmax(kType, amax, tensor, task.spec);
      shared.columns.scale[block][column] = f.scale;
      if (exists && (kBlocks != Blocks::kLine || place.row0 == 0)) {
        PutScale(turned.scales, place.col0 + column,
                 kBlocks == Blocks::kLine ? 0 : place.row0 / kSide + block, f);
      }
    }
    __syncthreads();
    const float4* scales = reinterpret_cast<const float4*>(
        shared.columns.scale[kBlocks == Blocks::kLine ? 0 : quad * 4 / kSide] +
        group * 16);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float4 s = scales[w];
#pragma unroll
      for (int r = 0; r < kTileThreadRows; ++r) {
        float v[4];
        RowWords<In>::Four(loaded[r], w, v);
        codes[r][w] =
            EncodeFour<kBlocks>(task.spec.format, v, s.x, s.y, s.z, s.w);
      }
    }
    __syncthreads();
  }

  if constexpr (IsPacked(kBlocks)) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint32_t in[4] = {codes[0][w], codes[1][w], codes[2][w],
                              codes[3][w]};
      uint32_t out[4];
      Transpose4x4(in, out);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int column = group * 16 + w * 4 + c;
        const int unit = (quad >> 2) ^ group;
        shared.packed[column * 32 + unit * 4 + (quad & 3)] =
            static_cast<uint16_t>(PackNibbles(out[c]));
      }
    }
    __syncthreads();
    const uint2* units = reinterpret_cast<const uint2*>(shared.packed);
#pragma unroll
    for (int i = 0; i < kTile * kTile / 16 / kTileThreads; ++i) {
      const int index = threadIdx.x + i * kTileThreads;
      const int column = index >> 3;
      const int part = index & 7;  // 16 rows
      if (place.col0 + column < cols && place.row0 + part * 16 < rows) {
        __stcs(reinterpret_cast<uint2*>(
                   turned.codes +
                   ((place.col0 + column) * rows + place.row0 + part * 16) / 2),
               units[column * 8 + (part ^ (column >> 4))]);
      }
    }
  } else {
    shared.turned.Put(codes);
    __syncthreads();
    shared.turned.Store(turned.codes, rows, cols, place);
  }
}

// Tiles of a column that a block of threads takes one after the other.
constexpr int kStripTiles = 8;

template <typename In>
__global__ void __launch_bounds__(kTileThreads)
    LineAmaxKernel(const typename In::Storage* __restrict__ x, int64_t rows,
                   int64_t cols, int64_t row_stride, int64_t column_tiles,
                   uint32_t* row_amax, uint32_t* col_amax, RunIf run) {
  if (!Runs(run)) return;
  __shared__ uint32_t columns[8][kTile];
  const int64_t strip = blockIdx.x / column_tiles;
  const int64_t column_tile = blockIdx.x % column_tiles;
  uint32_t fold[RowWords<In>::kWords] = {};
  for (int t = 0; t < kStripTiles; ++t) {
    const TilePlace place = PlaceOfTile(
        (strip * kStripTiles + t) * column_tiles + column_tile, column_tiles);
    if (place.row0 >= rows) break;
    uint4 loaded[kTileThreadRows][kTileVectors<In>];
    LoadTile<In>(x, rows, cols, row_stride, place, loaded);
    FoldColumns<In>(loaded, fold);
    if (row_amax == nullptr) continue;
#pragma unroll
    for (int r = 0; r < kTileThreadRows; ++r) {
      uint32_t amax = RowAmax<In>(loaded[r]);
#pragma unroll
      for (int lanes = 1; lanes < 8; lanes *= 2) {
        amax = MaxBits(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, lanes));
      }
      if ((threadIdx.x & 7) == 0 && place.row + r < rows) {
        RaiseWord(row_amax + place.row + r, amax);
      }
    }
  }
  if (col_amax == nullptr) return;
  PutColumnAmaxes<In>(fold, columns);
  __syncthreads();
  const int64_t column = column_tile * kTile + threadIdx.x;
  if (threadIdx.x >= kTile || column >= cols) return;
  uint32_t amax = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) amax = MaxBits(amax, columns[w][threadIdx.x]);
  RaiseWord(col_amax + column, amax);
}

constexpr int kRowVectors = 4;  // 16-byte loads of a thread

template <typename In>
__global__ void __launch_bounds__(1024)
    CastRowsKernel(const typename In::Storage* __restrict__ x, int vectors,
                   int64_t row_stride, const __grid_constant__ BlockTask task,
                   uint32_t* row_amax) {
  if (!Runs(task.run)) return;
  __shared__ uint32_t warp_max[32];
  const int64_t row = blockIdx.x;
  const uint4* source = reinterpret_cast<const uint4*>(x + row * row_stride);
  uint4 loaded[kRowVectors];
  uint32_t fold = 0;
#pragma unroll
  for (int i = 0; i < kRowVectors; ++i) {
    const int v = threadIdx.x + i * blockDim.x;
    loaded[i] = v < vectors ? __ldcs(source + v) : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int i = 0; i < kRowVectors; ++i) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      fold = In::FoldAmax(fold, WordOf(loaded[i], w));
    }
  }
  uint32_t amax = device::WarpMax(In::AmaxOfFold(fold));
  if ((threadIdx.x & 31) == 0) warp_max[threadIdx.x >> 5] = amax;
  __syncthreads();
  const int lane = threadIdx.x & 31;
  amax = device::WarpMax(
      lane < static_cast<int>(blockDim.x / 32) ? warp_max[lane] : 0u);
  const BlockFactor f = FloatFactor(amax, task.spec);
  if (threadIdx.x == 0) {
    row_amax[row] = amax;
    PutScale(task.out.row_wise.scales, row, 0, f);
    if (task.out.amax != nullptr) RaiseWord(task.out.amax, amax);
  }
  constexpr int kCodeWords = In::kPerWord;  // of a vector
  const int64_t row_words = int64_t{vectors} * kCodeWords;
  uint32_t* out =
      reinterpret_cast<uint32_t*>(task.out.row_wise.codes) + row * row_words;
#pragma unroll
  for (int i = 0; i < kRowVectors; ++i) {
    const int v = threadIdx.x + i * blockDim.x;
    float values[4 * In::kPerWord];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      In::Unpack(WordOf(loaded[i], w), values + w * In::kPerWord);
    }
    uint32_t words[kCodeWords];
#pragma unroll
    for (int w = 0; w < kCodeWords; ++w) {
      words[w] = EncodeFour<Blocks::kLine>(task.spec.format, values + 4 * w,
                                           f.scale, f.scale, f.scale, f.scale);
    }
    if (v >= vectors) continue;
    if constexpr (kCodeWords == 2) {
      __stcs(reinterpret_cast<uint2*>(out) + v, make_uint2(words[0], words[1]));
    } else {
      __stcs(out + v, words[0]);
    }
  }
}

Blocks BlocksOf(const BlockScales& scales) {
  const bool square = scales.block_rows > 1;
  switch (scales.type) {
    case ScaleType::kFloat:
      return square ? Blocks::k128x128 : Blocks::k1x128;
    case ScaleType::kE8M0:
      return square ? Blocks::k32x32 : Blocks::k1x32;
    case ScaleType::kE4M3:
      break;
  }
  return square ? Blocks::k16x16 : Blocks::k1x16;
}

template <Blocks kBlocks>
absl::Status LaunchTiles(const ConstTensorView& x, const BlockTask& task,
                         cudaStream_t stream) {
  const int64_t column_tiles = (x.cols + kTile - 1) / kTile;
  const int64_t row_tiles = (x.rows + kTile - 1) / kTile;
  SK_ASSIGN_OR_RETURN(const unsigned blocks,
                      GridSize(row_tiles * column_tiles, 1, "block cast"));
  return WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    CastTileKernel<In, kBlocks><<<blocks, kTileThreads, 0, stream>>>(
        static_cast<const typename In::Storage*>(x.data), x.rows, x.cols,
        x.row_stride, column_tiles, task);
    return LaunchStatus("block cast");
  });
}

}  // namespace

bool CanCastBlockTiles(const ConstTensorView& x, const BlockCastSpec& spec,
                       const BlockCastOutput& out) {
  return RowsAreVectors(x) && Aligned16(out.row_wise.codes) &&
         Aligned16(out.column_wise.codes) &&
         (out.column_wise.codes == nullptr || x.rows % 16 == 0) &&
         out.counters == nullptr && !spec.four_over_six &&
         !spec.stochastic_rounding && !out.row_wise.hadamard &&
         !out.column_wise.hadamard;
}

absl::Status CastBlockTiles(const ConstTensorView& x, const BlockCastSpec& spec,
                            const BlockCastOutput& out, const RunIf& run,
                            Stream stream) {
  const BlockTask task = {spec, out, run};
  const cudaStream_t s = AsCudaStream(stream);
  const BlockUse& source =
      out.row_wise.codes != nullptr ? out.row_wise : out.column_wise;
  if (source.line_amax != nullptr) {
    return LaunchTiles<Blocks::kLine>(x, task, s);
  }
  switch (BlocksOf(source.scales)) {
    case Blocks::k128x128:
      return LaunchTiles<Blocks::k128x128>(x, task, s);
    case Blocks::k1x32:
      return LaunchTiles<Blocks::k1x32>(x, task, s);
    case Blocks::k32x32:
      return LaunchTiles<Blocks::k32x32>(x, task, s);
    case Blocks::k1x16:
      return LaunchTiles<Blocks::k1x16>(x, task, s);
    case Blocks::k16x16:
      return LaunchTiles<Blocks::k16x16>(x, task, s);
    case Blocks::k1x128:
    case Blocks::kLine:
      break;
  }
  return LaunchTiles<Blocks::k1x128>(x, task, s);
}

bool CanCastRows(const ConstTensorView& x, const BlockCastSpec& spec,
                 const BlockCastOutput& out) {
  const int64_t vectors = x.cols * static_cast<int64_t>(SizeOf(x.dtype)) / 16;
  return RowsAreVectors(x) && Aligned16(out.row_wise.codes) &&
         out.column_wise.codes == nullptr && out.counters == nullptr &&
         spec.format != Format::kE2M1 && vectors <= 1024 * kRowVectors &&
         x.rows <= INT32_MAX;
}

absl::Status CastRows(const ConstTensorView& x, const BlockCastSpec& spec,
                      const BlockCastOutput& out, uint32_t* row_amax,
                      const RunIf& run, Stream stream) {
  const BlockTask task = {spec, out, run};
  const int vectors =
      static_cast<int>(x.cols * static_cast<int64_t>(SizeOf(x.dtype)) / 16);
  const int threads =
      std::clamp((vectors + kRowVectors - 1) / kRowVectors + 31, 64, 1024) /
      32 * 32;
  return WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    CastRowsKernel<In>
        <<<static_cast<unsigned>(x.rows), threads, 0, AsCudaStream(stream)>>>(
            static_cast<const typename In::Storage*>(x.data), vectors,
            x.row_stride, task, row_amax);
    return LaunchStatus("row-wise cast");
  });
}

bool CanRaiseLines(const ConstTensorView& x) { return RowsAreVectors(x); }

absl::Status RaiseLines(const ConstTensorView& x, uint32_t* row_amax,
                        uint32_t* col_amax, const RunIf& run, Stream stream) {
  const int64_t column_tiles = (x.cols + kTile - 1) / kTile;
  const int64_t strips =
      (x.rows + kTile * kStripTiles - 1) / (kTile * kStripTiles);
  SK_ASSIGN_OR_RETURN(const unsigned blocks,
                      GridSize(strips * column_tiles, 1, "line amaxes"));
  return WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    LineAmaxKernel<In><<<blocks, kTileThreads, 0, AsCudaStream(stream)>>>(
        static_cast<const typename In::Storage*>(x.data), x.rows, x.cols,
        x.row_stride, column_tiles, row_amax, col_amax, run);
    return LaunchStatus("line amaxes");
  });
}

}  // namespace scalekeeper::kernels::cuda
