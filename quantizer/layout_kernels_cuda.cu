// Transposes and interleaving on CUDA.
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "quantizer/launch_cuda.cuh"
#include "quantizer/layout_kernels_cuda.h"
#include "quantizer/layout_moves.h"

namespace scalekeeper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRows = 8;  // kTile * kTileRows == kThreads

// One tile per block and turn, through shared memory, so that both sides are
// read and written along their rows.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    Transpose(const T* __restrict__ codes, int64_t rows, int64_t cols,
              T* __restrict__ out) {
  __shared__ T tile[kTile][kTile + 1];
  const int64_t tiles_across = (cols + kTile - 1) / kTile;
  const int64_t tiles = (rows + kTile - 1) / kTile * tiles_across;
  const int x = threadIdx.x % kTile;
  const int y = threadIdx.x / kTile;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t top = t / tiles_across * kTile;
    const int64_t left = t % tiles_across * kTile;
#pragma unroll
    for (int i = y; i < kTile; i += kTileRows) {
      if (top + i < rows && left + x < cols) {
        tile[i][x] = codes[(top + i) * cols + left + x];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = y; i < kTile; i += kTileRows) {
      if (left + i < cols && top + x < rows) {
        out[(left + i) * rows + top + x] = tile[x][i];
      }
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads)
    TransposeNibbles(const uint8_t* __restrict__ codes, int64_t rows,
                     int64_t cols, uint8_t* __restrict__ out) {
  const int64_t pairs = (rows + 1) / 2;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < cols * pairs; i += stride) {
    out[i] = TransposedPair(codes, rows, cols, i / pairs, i % pairs);
  }
}

__global__ void __launch_bounds__(kThreads)
    MoveScales(BlockScales from, BlockScales to, int64_t rows) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < rows * to.cols; i += stride) {
    MoveScale(from, to, i / to.cols, i % to.cols);
  }
}

// T: 16 bytes where lengths and pointers allow it, else one.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    InterleaveLines(GatheredBlocks blocks, int64_t length,
                    const T* __restrict__ codes, T* __restrict__ out,
                    float* scale_inv) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t block = blocks.lines * length;
  for (int64_t i = first; i < block * blocks.ranks; i += stride) {
    const int64_t rank = i / block;
    const int64_t line = i % block / length;
    out[(line * blocks.ranks + rank) * length + i % length] = codes[i];
  }
  if (first == 0) *scale_inv = CommonScaleInverse(blocks);
}

// Enough blocks for the largest chips; kernels walk the rest.
unsigned Blocks(int64_t work, int64_t per_block) {
  constexpr int64_t kMaxBlocks = 132 * 16;
  const int64_t blocks = (work + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < 1            ? 1
                               : blocks > kMaxBlocks ? kMaxBlocks
                                                     : blocks);
}

template <typename T>
void LaunchTranspose(const void* codes, int64_t rows, int64_t cols, void* out,
                     Stream stream) {
  Transpose<<<Blocks(rows * cols, kTile * kTile), kThreads, 0,
              AsCudaStream(stream)>>>(static_cast<const T*>(codes), rows, cols,
                                      static_cast<T*>(out));
}

template <typename T>
void LaunchInterleave(const GatheredBlocks& blocks, uint8_t* out,
                      float* scale_inv, Stream stream) {
  const int64_t length = blocks.length / static_cast<int64_t>(sizeof(T));
  InterleaveLines<<<Blocks(blocks.ranks * blocks.lines * length, kThreads),
                    kThreads, 0, AsCudaStream(stream)>>>(
      blocks, length, reinterpret_cast<const T*>(blocks.codes),
      reinterpret_cast<T*>(out), scale_inv);
}

}  // namespace

absl::Status TransposeCodes(int device, const void* codes, int64_t rows,
                            int64_t cols, int bits, void* out, Stream stream) {
  if (rows == 0 || cols == 0) return absl::OkStatus();
  SK_ASSIGN_OR_RETURN(const CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(device));
  switch (bits) {
    case 4:
      TransposeNibbles<<<Blocks(cols * ((rows + 1) / 2), kThreads), kThreads, 0,
                         AsCudaStream(stream)>>>(
          static_cast<const uint8_t*>(codes), rows, cols,
          static_cast<uint8_t*>(out));
      break;
    case 8:
      LaunchTranspose<uint8_t>(codes, rows, cols, out, stream);
      break;
    case 16:
      LaunchTranspose<uint16_t>(codes, rows, cols, out, stream);
      break;
    case 32:
      LaunchTranspose<uint32_t>(codes, rows, cols, out, stream);
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("bits: got ", bits, ", want 4, 8, 16 or 32"));
  }
  return LaunchStatus("TransposeCodes");
}

absl::Status TransposeScales(int device, const BlockScales& from,
                             const BlockScales& to, int64_t to_code_rows,
                             Stream stream) {
  const int64_t rows = StoredRows(to, to_code_rows);
  if (rows * to.cols == 0) return absl::OkStatus();
  SK_ASSIGN_OR_RETURN(const CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(device));
  MoveScales<<<Blocks(rows * to.cols, kThreads), kThreads, 0,
               AsCudaStream(stream)>>>(from, to, rows);
  return LaunchStatus("TransposeScales");
}

absl::Status Interleave(int device, const GatheredBlocks& blocks, uint8_t* out,
                        float* scale_inv, Stream stream) {
  SK_ASSIGN_OR_RETURN(const CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(device));
  const auto aligned = [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % sizeof(uint4) == 0;
  };
  if (blocks.length % static_cast<int64_t>(sizeof(uint4)) == 0 &&
      aligned(blocks.codes) && aligned(out)) {
    LaunchInterleave<uint4>(blocks, out, scale_inv, stream);
  } else {
    LaunchInterleave<uint8_t>(blocks, out, scale_inv, stream);
  }
  return LaunchStatus("Interleave");
}

}  // namespace scalekeeper::kernels::cuda
