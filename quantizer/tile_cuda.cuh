// Tiles of 128 x 128 elements, one a block of 256 threads: what the casts that
// write a row-wise and a column-wise copy in one pass share. Internal.
//
// A thread holds 4 rows x 16 columns. Threads 0 to 7 of a warp lie side by
// side, so that a warp holds 16 whole rows.
#ifndef SCALEKEEPER_QUANTIZER_TILE_CUDA_CUH_
#define SCALEKEEPER_QUANTIZER_TILE_CUDA_CUH_

#include <cstdint>

namespace scalekeeper::kernels::cuda {

constexpr int kTile = 128;
constexpr int kTileThreads = 256;
constexpr int kTileThreadRows = 4;
constexpr int kTileThreadCols = 16;

// Where a thread's part of a tile lies.
struct TilePlace {
  int64_t row0, col0;  // of the tile
  int64_t row, col;    // of the thread
};
__device__ __forceinline__ TilePlace PlaceOfTile(int64_t tile,
                                                 int64_t column_tiles) {
  TilePlace place;
  place.row0 = (tile / column_tiles) * kTile;
  place.col0 = (tile % column_tiles) * kTile;
  place.row = place.row0 + (threadIdx.x >> 3) * kTileThreadRows;
  place.col = place.col0 + (threadIdx.x & 7) * kTileThreadCols;
  return place;
}

// Of 16 bytes, in kTileThreadCols elements.
template <typename In>
constexpr int kTileVectors = 4 / In::kPerWord;

// x: rows x cols with cols a multiple of 16; row_stride in elements, rows
// 16-byte aligned. What lies outside is 0.
template <typename In>
__device__ __forceinline__ void LoadTile(
    const typename In::Storage* x, int64_t rows, int64_t cols,
    int64_t row_stride, const TilePlace& place,
    uint4 (&loaded)[kTileThreadRows][kTileVectors<In>]) {
#pragma unroll
  for (int r = 0; r < kTileThreadRows; ++r) {
#pragma unroll
    for (int v = 0; v < kTileVectors<In>; ++v) {
      loaded[r][v] = make_uint4(0, 0, 0, 0);
      if (place.col < cols && place.row + r < rows) {
        loaded[r][v] =
            __ldcs(reinterpret_cast<const uint4*>(
                       x + (place.row + r) * row_stride + place.col) +
                   v);
      }
    }
  }
}

// Turns four words (rows) of four codes (columns).
__device__ __forceinline__ void Transpose4x4(const uint32_t* rows,
                                             uint32_t* columns) {
  const uint32_t a =
      __byte_perm(rows[0], rows[1], 0x5140);  // r0c0 r1c0 r0c1 r1c1
  const uint32_t b = __byte_perm(rows[2], rows[3], 0x5140);
  const uint32_t c = __byte_perm(rows[0], rows[1], 0x7362);
  const uint32_t d = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(a, b, 0x5410);
  columns[1] = __byte_perm(a, b, 0x7632);
  columns[2] = __byte_perm(c, d, 0x5410);
  columns[3] = __byte_perm(c, d, 0x7632);
}

// The codes of a tile, a byte each, on their way to a column-wise copy.
// [column][row / 4], the 16-byte groups of a column exchanged so that neither
// side has bank conflicts. In shared memory.
struct TurnedTile {
  uint4 groups[kTile * kTile / 16];

  // A thread's codes: codes[r][w] holds columns 4 w .. 4 w + 3 of its row r.
  __device__ __forceinline__ void Put(const uint32_t (&codes)[4][4]) {
    const int group = threadIdx.x & 7;
    const int quad = threadIdx.x >> 3;
    uint32_t* words = reinterpret_cast<uint32_t*>(groups);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint32_t in[4] = {codes[0][w], codes[1][w], codes[2][w],
                              codes[3][w]};
      uint32_t out[4];
      Transpose4x4(in, out);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int column = group * 16 + w * 4 + c;
        words[column * (kTile / 4) + (quad ^ (group * 4))] = out[c];
      }
    }
  }

  // After __syncthreads: to `column_wise`, cols x rows; rows is a multiple of
  // 16.
  __device__ __forceinline__ void Store(uint8_t* column_wise, int64_t rows,
                                        int64_t cols,
                                        const TilePlace& place) const {
#pragma unroll
    for (int i = 0; i < kTile * kTile / 16 / kTileThreads; ++i) {
      const int index = threadIdx.x + i * kTileThreads;
      const int column = index >> 3;
      const int part = index & 7;  // 16 rows
      if (place.col0 + column < cols && place.row0 + part * 16 < rows) {
        __stcs(reinterpret_cast<uint4*>(column_wise +
                                        (place.col0 + column) * rows +
                                        place.row0 + part * 16),
               groups[column * 8 + (part ^ (column >> 4))]);
      }
    }
  }
};

}  // namespace scalekeeper::kernels::cuda

#endif  // SCALEKEEPER_QUANTIZER_TILE_CUDA_CUH_
