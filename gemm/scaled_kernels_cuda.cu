#include <algorithm>
#include <cstdint>

#include "base/cuda/status_cuda.h"
#include "gemm/scaled_kernels_cuda.h"
#include "numerics/convert.h"
#include "numerics/format.h"

namespace scalekeeper {
namespace {

using internal::CodeAt;
using internal::GridView;
using internal::MatmulInput;
using internal::PackHalvesArguments;
using internal::TileScalesArguments;

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 20;
constexpr int kPerThread = 8;  // bfloat16 values: 16 bytes

unsigned BlocksFor(int64_t work) {
  return static_cast<unsigned>(
      std::min(kMaxBlocks, (work + kThreads - 1) / kThreads));
}

__device__ int64_t GlobalThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ int64_t GlobalThreads() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

// Neighbouring threads write neighbouring rows: rows run fastest in the layouts
// of 1 x 128 blocks.
__global__ void ExpandScalesKernel(ExpandScalesArguments p) {
  const int64_t count = p.padded_rows * p.cols;
  for (int64_t i = GlobalThread(); i < count; i += GlobalThreads()) {
    const int64_t row = i % p.padded_rows;
    const int64_t col = i / p.padded_rows;
    p.destination[row * p.row_stride + col * p.col_stride] =
        row < p.rows
            ? ScaleInverseAt(p.grid, row * p.row_block, col * p.col_block)
            : 0.0f;
  }
}

__global__ void TileScalesKernel(TileScalesArguments p) {
  for (int64_t i = GlobalThread(); i < p.bytes; i += GlobalThreads()) {
    p.destination[i] = TiledScale(p, i);
  }
}

// A thread makes kBytes bytes of the destination.
__global__ void PackHalvesKernel(PackHalvesArguments p) {
  constexpr int kBytes = 16;
  const int64_t chunks = p.padded_rows * p.padded_cols / 2 / kBytes;
  for (int64_t i = GlobalThread(); i < chunks; i += GlobalThreads()) {
    alignas(kBytes) uint8_t bytes[kBytes];
#pragma unroll
    for (int j = 0; j < kBytes; ++j) bytes[j] = PackedHalves(p, i * kBytes + j);
    reinterpret_cast<uint4*>(p.destination)[i] =
        *reinterpret_cast<const uint4*>(bytes);
  }
}

enum class ElementScale { kNone, kBlock, kNvfp4Block };

// Of one block, without NVFP4's tensor scale.
__device__ float Nvfp4BlockScaleAt(const GridView& grid, int64_t row,
                                   int64_t col) {
  const int64_t at = ScaleOffsetOfCode(
      grid.scales, grid.first_row + (grid.is_transposed ? col : row),
      grid.first_col + (grid.is_transposed ? row : col));
  return DecodeE4M3(static_cast<const uint8_t*>(grid.scales.data)[at]);
}

// Eight codes that lie behind each other, the first in the low bits; `at` is a
// sum of strides, and a multiple of 8.
__device__ uint64_t LoadEightCodes(const void* codes, Format format,
                                   int64_t at) {
  const uint8_t* bytes = static_cast<const uint8_t*>(codes);
  return format == Format::kE2M1
             ? *reinterpret_cast<const uint32_t*>(bytes + at / 2)
             : *reinterpret_cast<const uint64_t*>(bytes + at);
}

// A thread makes kPerThread values of a row. `has_words`: the codes of a row
// lie behind each other, and each row begins at a multiple of 8 bytes.
__global__ void DequantizeKernel(DequantizeArguments p, ElementScale kind,
                                 bool has_words) {
  const ConstTensorView& v = p.input.values;
  const GridView& grid = p.input.grid;
  const Format format = p.input.format;
  const bool is_codes = v.dtype == DType::kUint8;
  const int code_bits = format == Format::kE2M1 ? 4 : 8;
  const uint32_t code_mask = format == Format::kE2M1 ? 0xFu : 0xFFu;
  const int64_t chunks_per_row = p.padded_cols / kPerThread;
  const int64_t chunks = p.padded_rows * chunks_per_row;
  const int64_t block = kind == ElementScale::kNone ? 1 : grid.col_block();
  const int64_t first = grid.is_transposed ? grid.first_row : grid.first_col;
  const auto scale_at = [&](int64_t row, int64_t col) {
    return kind == ElementScale::kBlock ? ScaleInverseAt(grid, row, col)
                                        : Nvfp4BlockScaleAt(grid, row, col);
  };
  for (int64_t i = GlobalThread(); i < chunks; i += GlobalThreads()) {
    const int64_t row = i / chunks_per_row;
    const int64_t first_col = (i - row * chunks_per_row) * kPerThread;
    alignas(16) uint16_t values[kPerThread] = {};
    const int64_t at = row * v.row_stride + first_col * v.col_stride;
    const int64_t count = row < v.rows ? v.cols - first_col : 0;
    const bool reads_words = has_words && count >= kPerThread;
    const uint64_t words = reads_words ? LoadEightCodes(v.data, format, at) : 0;
    float scale = 1.0f;
    // Blocks are longer than what a thread makes: at most one begins inside.
    int64_t next_block = kPerThread;
    if (kind != ElementScale::kNone && count > 0) {
      scale = scale_at(row, first_col);
      next_block = block - (first + first_col) % block;
    }
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      if (j < count) {
        if (j == next_block) scale = scale_at(row, first_col + j);
        const int64_t element = at + j * v.col_stride;
        if (is_codes) {
          const uint8_t code =
              reads_words
                  ? static_cast<uint8_t>((words >> (code_bits * j)) & code_mask)
                  : CodeAt(v.data, format, element);
          values[j] = BF16FromFloat(Decode(format, code) * scale);
        } else {
          values[j] = BF16FromFloat(LoadFloat(v.dtype, v.data, element));
        }
      }
    }
    reinterpret_cast<uint4*>(p.destination)[i] =
        *reinterpret_cast<const uint4*>(values);
  }
}

__global__ void MakeAlphaKernel(const float* a, const float* b, float beta,
                                float* words) {
  words[0] = *a * *b;
  words[1] = beta;
}

ElementScale ElementScaleOf(const MatmulInput& input) {
  if (!input.is_codes()) return ElementScale::kNone;
  if (input.grid.scales.type == ScaleType::kE4M3) {
    return ElementScale::kNvfp4Block;
  }
  return OuterScaleOf(input).data == nullptr ? ElementScale::kBlock
                                             : ElementScale::kNone;
}

}  // namespace

void LoadScaledKernels() {
  cudaFuncAttributes attributes;
  (void)cudaFuncGetAttributes(&attributes, ExpandScalesKernel);
  (void)cudaFuncGetAttributes(&attributes, TileScalesKernel);
  (void)cudaFuncGetAttributes(&attributes, PackHalvesKernel);
  (void)cudaFuncGetAttributes(&attributes, DequantizeKernel);
  (void)cudaFuncGetAttributes(&attributes, MakeAlphaKernel);
  (void)cudaGetLastError();
}

absl::Status ExpandScalesOnDevice(const ExpandScalesArguments& p,
                                  cudaStream_t stream) {
  const int64_t count = p.padded_rows * p.cols;
  if (count == 0) return absl::OkStatus();
  ExpandScalesKernel<<<BlocksFor(count), kThreads, 0, stream>>>(p);
  return CudaStatus(cudaGetLastError(), "launch of ExpandScalesKernel");
}

absl::Status TileScalesOnDevice(const TileScalesArguments& p,
                                cudaStream_t stream) {
  if (p.bytes == 0) return absl::OkStatus();
  TileScalesKernel<<<BlocksFor(p.bytes), kThreads, 0, stream>>>(p);
  return CudaStatus(cudaGetLastError(), "launch of TileScalesKernel");
}

absl::Status PackHalvesOnDevice(const PackHalvesArguments& p,
                                cudaStream_t stream) {
  const int64_t count = p.padded_rows * p.padded_cols / 32;
  if (count == 0) return absl::OkStatus();
  PackHalvesKernel<<<BlocksFor(count), kThreads, 0, stream>>>(p);
  return CudaStatus(cudaGetLastError(), "launch of PackHalvesKernel");
}

absl::Status DequantizeOnDevice(const DequantizeArguments& p,
                                cudaStream_t stream) {
  const int64_t chunks = p.padded_rows * p.padded_cols / kPerThread;
  if (chunks == 0) return absl::OkStatus();
  const ConstTensorView& v = p.input.values;
  const bool has_words = p.input.is_codes() && v.col_stride == 1 &&
                         v.row_stride % 8 == 0 &&
                         reinterpret_cast<uintptr_t>(v.data) % 8 == 0;
  DequantizeKernel<<<BlocksFor(chunks), kThreads, 0, stream>>>(
      p, ElementScaleOf(p.input), has_words);
  return CudaStatus(cudaGetLastError(), "launch of DequantizeKernel");
}

OuterScale OuterScaleOf(const MatmulInput& input) {
  const BlockScales& scales = input.grid.scales;
  OuterScale outer;
  if (!input.is_codes()) return outer;
  if (scales.type == ScaleType::kE4M3) {
    outer.data = scales.tensor_scale_inv;
  } else if (input.is_per_tensor()) {
    outer.data = static_cast<const float*>(scales.data);
  } else if (input.scaling == Scaling::kRowwise) {
    outer.data = static_cast<const float*>(scales.data) +
                 input.grid.first_row * scales.row_stride;
    outer.stride = scales.row_stride;
  }
  return outer;
}

absl::Status MakeAlphaOnDevice(const float* a, const float* b, float beta,
                               float* words, cudaStream_t stream) {
  MakeAlphaKernel<<<1, 1, 0, stream>>>(a, b, beta, words);
  return CudaStatus(cudaGetLastError(), "launch of MakeAlphaKernel");
}

}  // namespace scalekeeper
