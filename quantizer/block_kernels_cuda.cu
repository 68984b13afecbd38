// Block casts of any shape, stride and option, amaxes of lines and decoding;
// the fast casts are in block_cast_cuda.cu and sixteen_cast_cuda.cu.
//
//   CastSixteenKernel  a thread a 1 x 16 block: all of NVFP4's options.
//   CastBlocksKernel   a warp a block of any other size.
// Both walk `v`, x in the direction of the codes: a column-wise copy of its own
// is cast from the transposed view.
#include <algorithm>
#include <cstdint>

#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "numerics/convert.h"
#include "numerics/hadamard.h"
#include "quantizer/block_cast_cuda.h"
#include "quantizer/block_factor.h"
#include "quantizer/block_kernels_cuda.h"
#include "quantizer/cast_cuda.cuh"
#include "quantizer/kernels_cuda.h"
#include "quantizer/launch_cuda.cuh"

namespace scalekeeper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 132 * 8;
// Blocks of a whole row are cut so; their scale is known.
constexpr int64_t kLinePart = 128;

// One pass over a tensor: the codes of `direct`, and those of `turned`, their
// transpose. Either may be missing (null codes). Passed by value.
struct Pass {
  ConstTensorView v;  // in the direction of `direct`
  BlockUse direct;
  BlockUse turned;
  BlockCastSpec spec;
  uint32_t* amax;
  CastCounters* counters;
  RunIf run;
  bool rows_fastest;  // neighbouring threads take neighbouring rows

  SK_HOST_DEVICE const BlockUse& source() const {
    return direct.codes != nullptr ? direct : turned;
  }
};

__device__ __forceinline__ float LoadValue(const ConstTensorView& v,
                                           int64_t row, int64_t col) {
  return LoadFloat(v.dtype, v.data, row * v.row_stride + col * v.col_stride);
}

__device__ __forceinline__ float RoundTo(DType dtype, float value) {
  float stored = 0;
  StoreFloat(dtype, value, &stored);
  return LoadFloat(dtype, &stored);
}

// The tensor's factor, and its inverse written by the first thread.
__device__ __forceinline__ TensorFactor BeginPass(const Pass& pass) {
  const TensorFactor tensor = TensorFactorOf(pass.source(), pass.spec);
  if (pass.source().scales.type == ScaleType::kE4M3 && blockIdx.x == 0 &&
      threadIdx.x == 0) {
    if (pass.direct.codes != nullptr) {
      *pass.direct.scales.tensor_scale_inv = tensor.scale_inv;
    }
    if (pass.turned.codes != nullptr) {
      *pass.turned.scales.tensor_scale_inv = tensor.scale_inv;
    }
  }
  return tensor;
}

// The code at (row, col) of the pass.
__device__ __forceinline__ uint8_t EncodeAt(const Pass& pass, float value,
                                            float scale, int64_t row,
                                            int64_t col) {
  const float scaled = value * scale;
  if (pass.spec.stochastic_rounding) {
    const int64_t index = row * pass.v.cols + col;
    const RandomWords draws =
        RandomDraws(pass.spec.random_key, *pass.spec.step, index / 4);
    return EncodeE2M1Stochastic(scaled, draws.words[index % 4]);
  }
  return Encode(pass.spec.format, scaled);
}

struct Counts {
  uint32_t nonzero = 0, underflow = 0, saturation = 0, non_finite = 0;

  __device__ __forceinline__ void Add(Format format, float x, float scale,
                                      uint8_t code) {
    nonzero += x != 0.0f;
    underflow += x != 0.0f && Decode(format, code) == 0.0f;
    saturation += fabsf(x * scale) > FormatMax(format);
    non_finite += IsNonFiniteAmax(AmaxBits(x));
  }
  __device__ __forceinline__ void Flush(CastCounters* out) const {
    AddTo(&out->nonzero, nonzero);
    AddTo(&out->underflow, underflow);
    AddTo(&out->saturation, saturation);
    AddTo(&out->non_finite, non_finite);
  }

 private:
  static __device__ __forceinline__ void AddTo(uint64_t* counter,
                                               uint32_t count) {
    if (count != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(counter),
                static_cast<unsigned long long>(count));
    }
  }
};

__device__ __forceinline__ void RaiseAmax(const Pass& pass, uint32_t amax) {
  if (pass.amax == nullptr) return;
  amax = device::BlockMax(amax);
  if (threadIdx.x == 0) device::RaiseWord(pass.amax, amax);
}

__global__ void __launch_bounds__(kThreads)
    CastSixteenKernel(const __grid_constant__ Pass pass) {
  if (!Runs(pass.run)) return;
  const TensorFactor tensor = BeginPass(pass);
  const ConstTensorView& v = pass.v;
  const int64_t grid_cols = pass.direct.scales.cols;
  const int64_t row_bytes = CodeRowBytes(Format::kE2M1, v.cols);
  const int64_t blocks = v.rows * grid_cols;
  uint32_t amax = 0;
  Counts counts;
  for (int64_t b = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       b < blocks; b += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t row = pass.rows_fastest ? b % v.rows : b / grid_cols;
    const int64_t block = pass.rows_fastest ? b / v.rows : b % grid_cols;
    const int64_t col = block * kNvfp4Block;
    const int count = static_cast<int>(
        v.cols - col < kNvfp4Block ? v.cols - col : kNvfp4Block);
    float values[kNvfp4Block];
#pragma unroll
    for (int i = 0; i < kNvfp4Block; ++i) {
      values[i] = i < count ? LoadValue(v, row, col + i) : 0.0f;
      amax = MaxBits(amax, AmaxBits(values[i]));
    }
    if (pass.direct.hadamard) {
      HadamardTransform(values);
#pragma unroll
      for (int i = 0; i < kNvfp4Block; ++i) {
        values[i] = RoundTo(v.dtype, values[i]);
      }
    }
    uint32_t block_amax = 0;
#pragma unroll
    for (int i = 0; i < kNvfp4Block; ++i) {
      block_amax = MaxBits(block_amax, AmaxBits(values[i]));
    }
    BlockFactor f =
        FactorFromAmax(ScaleType::kE4M3, block_amax, tensor, pass.spec);
    if (pass.spec.four_over_six) {
      f = BetterOfFourAndSix(f, tensor, [&](const BlockFactor& candidate) {
        float sum = 0;
        for (int i = 0; i < count; ++i) {
          sum += Nvfp4Error(values[i], candidate.scale, candidate.inverse);
        }
        return sum;
      });
    }
    WriteScale(pass.direct.scales, row, block, v.rows, f);
    uint8_t* out = pass.direct.codes + row * row_bytes + col / 2;
#pragma unroll
    for (int i = 0; i < kNvfp4Block; i += 2) {
      uint8_t pair = 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (i + h >= count) continue;
        const uint8_t code =
            EncodeAt(pass, values[i + h], f.scale, row, col + i + h);
        pair = static_cast<uint8_t>(pair | (code << (4 * h)));
        if (pass.counters != nullptr) {
          counts.Add(Format::kE2M1, values[i + h], f.scale, code);
        }
      }
      if (i < count) out[i / 2] = pair;
    }
  }
  RaiseAmax(pass, amax);
  if (pass.counters != nullptr) counts.Flush(pass.counters);
}

// A part of a matrix.
struct Part {
  int64_t r0, c0, rows, cols;
};

// Stores the codes of a part, `code_at(row, col)`, at a use whose rows hold
// `cols` codes. Lanes of one warp.
template <typename CodeAt>
__device__ __forceinline__ void StorePart(uint8_t* codes, Format format,
                                          int64_t cols, const Part& part,
                                          const CodeAt& code_at) {
  const int lane = threadIdx.x & 31;
  const int per_byte = format == Format::kE2M1 ? 2 : 1;
  const int64_t row_bytes = CodeRowBytes(format, cols);
  const int64_t width = (part.cols + per_byte - 1) / per_byte;
  for (int64_t i = lane; i < part.rows * width; i += 32) {
    const int64_t row = part.r0 + i / width;
    const int64_t col = part.c0 + i % width * per_byte;
    uint8_t byte = code_at(row, col);
    if (per_byte == 2 && col + 1 < part.c0 + part.cols) {
      byte = static_cast<uint8_t>(byte | (code_at(row, col + 1) << 4));
    }
    codes[row * row_bytes + col / per_byte] = byte;
  }
}

__global__ void __launch_bounds__(kThreads)
    CastBlocksKernel(const __grid_constant__ Pass pass) {
  if (!Runs(pass.run)) return;
  const TensorFactor tensor = BeginPass(pass);
  const ConstTensorView& v = pass.v;
  const BlockUse& source = pass.source();
  const bool lines = source.line_amax != nullptr;
  // Of the source's grid; that of a transpose has rows and columns exchanged,
  // but its blocks are square.
  const int64_t block_rows = source.scales.block_rows;
  const int64_t block_cols = lines ? kLinePart : source.scales.block_cols;
  const int64_t grid_rows = (v.rows + block_rows - 1) / block_rows;
  const int64_t grid_cols = (v.cols + block_cols - 1) / block_cols;
  const int lane = threadIdx.x & 31;
  uint32_t amax = 0;
  Counts counts;
  for (int64_t b = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) +
                   (threadIdx.x >> 5);
       b < grid_rows * grid_cols;
       b += static_cast<int64_t>(gridDim.x) * (kThreads / 32)) {
    const int64_t i = pass.rows_fastest ? b % grid_rows : b / grid_cols;
    const int64_t j = pass.rows_fastest ? b / grid_rows : b % grid_cols;
    Part part = {i * block_rows, j * block_cols, 0, 0};
    part.rows = min(block_rows, v.rows - part.r0);
    part.cols = min(block_cols, v.cols - part.c0);
    const int64_t size = part.rows * part.cols;
    uint32_t block_amax = 0;
    for (int64_t e = lane; e < size; e += 32) {
      block_amax =
          MaxBits(block_amax, AmaxBits(LoadValue(v, part.r0 + e / part.cols,
                                                 part.c0 + e % part.cols)));
    }
    block_amax = device::WarpMax(block_amax);
    amax = MaxBits(amax, block_amax);
    BlockFactor f = FactorFromAmax(
        source.scales.type, lines ? source.line_amax[part.r0] : block_amax,
        tensor, pass.spec);
    if (pass.spec.four_over_six) {
      // In the block's order: every lane adds all of it.
      f = BetterOfFourAndSix(f, tensor, [&](const BlockFactor& candidate) {
        float sum = 0;
        for (int64_t e = 0; e < size; ++e) {
          const float value =
              LoadValue(v, part.r0 + e / part.cols, part.c0 + e % part.cols);
          sum += Nvfp4Error(value, candidate.scale, candidate.inverse);
        }
        return sum;
      });
    }
    if (lane == 0 && (!lines || j == 0)) {
      if (pass.direct.codes != nullptr) {
        WriteScale(pass.direct.scales, i, j, v.rows, f);
      }
      if (pass.turned.codes != nullptr) {
        WriteScale(pass.turned.scales, j, i, v.cols, f);
      }
    }
    const auto code_at = [&](int64_t row, int64_t col) {
      return EncodeAt(pass, LoadValue(v, row, col), f.scale, row, col);
    };
    if (pass.direct.codes != nullptr) {
      StorePart(pass.direct.codes, pass.spec.format, v.cols, part, code_at);
    }
    if (pass.turned.codes != nullptr) {
      StorePart(pass.turned.codes, pass.spec.format, v.rows,
                {part.c0, part.r0, part.cols, part.rows},
                [&](int64_t row, int64_t col) { return code_at(col, row); });
    }
    if (pass.counters != nullptr) {
      for (int64_t e = lane; e < size; e += 32) {
        const int64_t row = part.r0 + e / part.cols;
        const int64_t col = part.c0 + e % part.cols;
        counts.Add(pass.spec.format, LoadValue(v, row, col), f.scale,
                   code_at(row, col));
      }
    }
  }
  RaiseAmax(pass, amax);
  if (pass.counters != nullptr) counts.Flush(pass.counters);
}

unsigned StridedGrid(int64_t work, int64_t per_block) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((work + per_block - 1) / per_block, 1, kMaxBlocks));
}

absl::Status RunPass(Pass pass, cudaStream_t stream) {
  pass.rows_fastest = pass.v.row_stride < pass.v.col_stride;
  const BlockScales& scales = pass.source().scales;
  if (scales.type == ScaleType::kE4M3 && scales.block_rows == 1) {
    CastSixteenKernel<<<StridedGrid(pass.v.rows * scales.cols, kThreads),
                        kThreads, 0, stream>>>(pass);
  } else {
    const int64_t width =
        pass.source().line_amax != nullptr ? kLinePart : scales.block_cols;
    const int64_t blocks = (pass.v.rows + scales.block_rows - 1) /
                           scales.block_rows *
                           ((pass.v.cols + width - 1) / width);
    CastBlocksKernel<<<StridedGrid(blocks, kThreads / 32), kThreads, 0,
                       stream>>>(pass);
  }
  return LaunchStatus("block cast");
}

__global__ void __launch_bounds__(kThreads)
    EmptyKernel(BlockUse use, BlockCastSpec spec, int64_t code_rows,
                RunIf run) {
  if (!Runs(run)) return;
  ScaleEmptyUse(use, spec, code_rows,
                static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                static_cast<int64_t>(gridDim.x) * kThreads);
}

absl::Status ScaleEmpty(const ConstTensorView& x, const BlockCastSpec& spec,
                        const BlockCastOutput& out, const RunIf& run,
                        cudaStream_t stream) {
  for (const bool column_wise : {false, true}) {
    const BlockUse& use = column_wise ? out.column_wise : out.row_wise;
    const int64_t code_rows = column_wise ? x.cols : x.rows;
    if (!EmptyUseHasScales(use, code_rows)) continue;
    EmptyKernel<<<StridedGrid(code_rows, kThreads), kThreads, 0, stream>>>(
        use, spec, code_rows, run);
    SK_RETURN_IF_ERROR(LaunchStatus("scales of an empty tensor"));
  }
  return absl::OkStatus();
}

// Consecutive threads take consecutive columns of 32 rows.
constexpr int kLineRows = 32;

__global__ void __launch_bounds__(kThreads)
    AnyLineAmaxKernel(ConstTensorView x, int64_t column_parts,
                      uint32_t* row_amax, uint32_t* col_amax, RunIf run) {
  if (!Runs(run)) return;
  const int64_t row0 = blockIdx.x / column_parts * kLineRows;
  const int64_t col = blockIdx.x % column_parts * kThreads + threadIdx.x;
  uint32_t column = 0;
  for (int64_t row = row0; row < min(row0 + kLineRows, x.rows); ++row) {
    const uint32_t bits = col < x.cols ? AmaxBits(LoadValue(x, row, col)) : 0u;
    column = MaxBits(column, bits);
    if (row_amax != nullptr) {
      const uint32_t warp = device::WarpMax(bits);
      if ((threadIdx.x & 31) == 0) device::RaiseWord(row_amax + row, warp);
    }
  }
  if (col_amax != nullptr && col < x.cols) {
    device::RaiseWord(col_amax + col, column);
  }
}

// The amaxes after the transform along the columns of x; rows a multiple of 16.
__global__ void __launch_bounds__(kThreads)
    HadamardAmaxKernel(ConstTensorView x, TensorAmaxWords words, RunIf run) {
  if (!Runs(run)) return;
  uint32_t bits = 0;
  const int64_t groups = x.rows / kHadamardSize * x.cols;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       g < groups; g += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t row = g / x.cols * kHadamardSize;
    const int64_t col = g % x.cols;
    float values[kHadamardSize];
#pragma unroll
    for (int i = 0; i < kHadamardSize; ++i) {
      values[i] = LoadValue(x, row + i, col);
    }
    HadamardTransform(values);
#pragma unroll
    for (int i = 0; i < kHadamardSize; ++i) {
      bits = MaxBits(bits, AmaxBits(RoundTo(x.dtype, values[i])));
    }
  }
  bits = device::BlockMax(bits);
  if (threadIdx.x == 0) RaiseTransformed(words, bits);
}

// A thread decodes 16 codes of a row.
__global__ void __launch_bounds__(kThreads)
    DecodeKernel(const uint8_t* codes, Format format, BlockScales scales,
                 bool hadamard, TensorView out) {
  const int64_t groups = (out.cols + kHadamardSize - 1) / kHadamardSize;
  const int64_t row_bytes = CodeRowBytes(format, out.cols);
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       g < out.rows * groups; g += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t row = g / groups;
    const int64_t col = g % groups * kHadamardSize;
    const int count = static_cast<int>(
        out.cols - col < kHadamardSize ? out.cols - col : kHadamardSize);
    const uint8_t* row_codes = codes + row * row_bytes;
    float values[kHadamardSize];
#pragma unroll
    for (int i = 0; i < kHadamardSize; ++i) {
      values[i] = 0;
      if (i >= count) continue;
      const int64_t at = col + i;
      const int code = format == Format::kE2M1
                           ? row_codes[at / 2] >> (at % 2 * 4) & 0xF
                           : row_codes[at];
      values[i] = Decode(format, static_cast<uint8_t>(code)) *
                  ScaleInverseAt(scales, row, at);
    }
    if (hadamard) InverseHadamardTransform(values);
#pragma unroll
    for (int i = 0; i < kHadamardSize; ++i) {
      if (i < count) {
        StoreFloat(out.dtype, values[i], out.data,
                   row * out.row_stride + (col + i) * out.col_stride);
      }
    }
  }
}

absl::Status ClearWords(uint32_t* words, int64_t count, cudaStream_t stream) {
  SK_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
      words, 0, static_cast<size_t>(count) * sizeof(uint32_t), stream));
  return absl::OkStatus();
}

}  // namespace

absl::Status BlockCast(const ConstTensorView& x, const BlockCastSpec& spec,
                       const BlockCastOutput& out, const RunIf& run,
                       Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  if (x.empty()) return ScaleEmpty(x, spec, out, run, AsCudaStream(stream));
  if (CanCastBlockTiles(x, spec, out)) {
    return CastBlockTiles(x, spec, out, run, stream);
  }
  if (CanCastSixteenTiles(x, spec, out)) {
    return CastSixteenTiles(x, spec, out, run, stream);
  }
  // The uses that tiles take, then those that they do not.
  BlockCastOutput rest = out;
  BlockCastOutput row_wise = out;
  row_wise.column_wise = {};
  const bool transposed =
      out.column_wise.codes != nullptr && IsTransposed(out.column_wise);
  if (out.row_wise.codes != nullptr && !transposed &&
      CanCastBlockTiles(x, spec, row_wise)) {
    SK_RETURN_IF_ERROR(CastBlockTiles(x, spec, row_wise, run, stream));
    rest.row_wise = {};
    rest.amax = nullptr;
  }
  const cudaStream_t s = AsCudaStream(stream);
  Pass pass = {};
  pass.v = x;
  pass.spec = spec;
  pass.amax = rest.amax;
  pass.counters = rest.counters;
  pass.run = run;
  pass.direct = rest.row_wise;
  if (transposed) pass.turned = rest.column_wise;
  if (pass.direct.codes != nullptr || pass.turned.codes != nullptr) {
    SK_RETURN_IF_ERROR(RunPass(pass, s));
    pass.amax = nullptr;
    pass.counters = nullptr;
  }
  if (rest.column_wise.codes == nullptr || transposed) return absl::OkStatus();
  pass.v = ConstTensorView(x.Transposed());
  pass.direct = rest.column_wise;
  pass.turned = {};
  return RunPass(pass, s);
}

absl::Status RowwiseCast(const ConstTensorView& x, const BlockCastSpec& spec,
                         const BlockCastOutput& out, uint32_t* row_amax,
                         const RunIf& run, Stream stream) {
  if (x.empty() || !CanCastRows(x, spec, out)) {
    SK_RETURN_IF_ERROR(cuda::LineAmaxes(x, row_amax, nullptr, run, stream));
    BlockCastOutput known = out;
    known.row_wise.line_amax = row_amax;
    return cuda::BlockCast(x, spec, known, run, stream);
  }
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  return CastRows(x, spec, out, row_amax, run, stream);
}

absl::Status TensorAmaxes(const ConstTensorView& x, bool hadamard,
                          const TensorAmaxWords& words, const RunIf& run,
                          Stream stream) {
  uint32_t* const row_wise = words.row_wise;
  uint32_t* const column_wise = words.column_wise;
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  const cudaStream_t s = AsCudaStream(stream);
  if (hadamard && column_wise != nullptr && !x.empty() && CanRaiseLines(x)) {
    if (row_wise != nullptr) SK_RETURN_IF_ERROR(ClearWords(row_wise, 1, s));
    SK_RETURN_IF_ERROR(ClearWords(column_wise, 1, s));
    return RaiseHadamardAmaxes(x, words, run, stream);
  }
  if (row_wise != nullptr) {
    SK_RETURN_IF_ERROR(ClearWords(row_wise, 1, s));
    SK_RETURN_IF_ERROR(cuda::Amax(x, row_wise, run, stream));
  }
  if (column_wise == nullptr) return absl::OkStatus();
  if (!hadamard && row_wise != nullptr) {
    SK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(
        column_wise, row_wise, sizeof(uint32_t), cudaMemcpyDeviceToDevice, s));
    return absl::OkStatus();
  }
  SK_RETURN_IF_ERROR(ClearWords(column_wise, 1, s));
  if (!hadamard) return cuda::Amax(x, column_wise, run, stream);
  if (x.empty()) return absl::OkStatus();
  HadamardAmaxKernel<<<StridedGrid(x.size() / kHadamardSize, kThreads),
                       kThreads, 0, s>>>(x, words, run);
  return LaunchStatus("Hadamard amax");
}

absl::Status LineAmaxes(const ConstTensorView& x, uint32_t* row_amax,
                        uint32_t* col_amax, const RunIf& run, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  const cudaStream_t s = AsCudaStream(stream);
  if (row_amax != nullptr) SK_RETURN_IF_ERROR(ClearWords(row_amax, x.rows, s));
  if (col_amax != nullptr) SK_RETURN_IF_ERROR(ClearWords(col_amax, x.cols, s));
  if (x.empty()) return absl::OkStatus();
  if (CanRaiseLines(x)) return RaiseLines(x, row_amax, col_amax, run, stream);
  const int64_t column_parts = (x.cols + kThreads - 1) / kThreads;
  const int64_t row_parts = (x.rows + kLineRows - 1) / kLineRows;
  SK_ASSIGN_OR_RETURN(const unsigned blocks,
                      GridSize(row_parts * column_parts, 1, "line amaxes"));
  AnyLineAmaxKernel<<<blocks, kThreads, 0, s>>>(x, column_parts, row_amax,
                                                col_amax, run);
  return LaunchStatus("line amaxes");
}

absl::Status BlockDecode(const uint8_t* codes, Format format,
                         const BlockScales& scales, bool hadamard,
                         const TensorView& out, Stream stream) {
  if (out.empty()) return absl::OkStatus();
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(out.device.index));
  const int64_t groups = (out.cols + kHadamardSize - 1) / kHadamardSize;
  DecodeKernel<<<StridedGrid(out.rows * groups, kThreads), kThreads, 0,
                 AsCudaStream(stream)>>>(codes, format, scales, hadamard, out);
  return LaunchStatus("block decode");
}

}  // namespace scalekeeper::kernels::cuda
