// Quantizing the rows of several experts on CUDA: one launch for all of them,
// whatever the counts are.
//
// A block takes tiles of kTile x kTile elements; each row of a tile finds its
// expert in the offsets. Amaxes are folded per row in shared memory, so that
// the words of the experts see one atomic per row of a tile at most.
#include <cstdint>

#include "absl/status/status.h"
#include "amax/observe_cuda.cuh"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "numerics/amax.h"
#include "numerics/convert.h"
#include "numerics/scale.h"
#include "quantizer/cast_cuda.cuh"
#include "quantizer/grouped_kernels_cuda.h"
#include "quantizer/launch_cuda.cuh"

namespace scalekeeper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kRowsAtOnce = kThreads / kTile;
// Enough blocks for the largest chips; they walk the rest.
constexpr int64_t kMaxBlocks = 132 * 8;

// One thread: experts are few.
__global__ void Offsets(const int64_t* counts, int experts, int64_t rows,
                        int64_t* offsets) {
  int64_t sum = 0;
  offsets[0] = 0;
  for (int e = 0; e < experts; ++e) {
    const int64_t count = counts[e] < 0 ? 0 : counts[e];
    sum = count > rows - sum ? rows : sum + count;
    offsets[e + 1] = sum;
  }
}

// A tensor as kernels take it.
template <typename In>
struct Source {
  const typename In::Storage* data;
  int64_t rows, cols, row_stride, col_stride;

  __device__ float at(int64_t row, int64_t col) const {
    return In::Load(data[row * row_stride + col * col_stride]);
  }
  __host__ __device__ int64_t tiles_across() const {
    return (cols + kTile - 1) / kTile;
  }
  __host__ __device__ int64_t tiles() const {
    return (rows + kTile - 1) / kTile * tiles_across();
  }
};

template <typename In>
Source<In> SourceOf(const ConstTensorView& x) {
  return {static_cast<const typename In::Storage*>(x.data), x.rows, x.cols,
          x.row_stride, x.col_stride};
}

// Whose the rows of a tile are, and their amaxes.
struct TileRows {
  int expert[kTile];
  uint32_t amax[kTile];
};

template <typename In>
__global__ void __launch_bounds__(kThreads)
    AmaxOfExperts(Source<In> x, GroupedSpec spec) {
  __shared__ TileRows rows;
  const int lane = threadIdx.x % kTile;
  for (int64_t t = blockIdx.x; t < x.tiles(); t += gridDim.x) {
    const int64_t top = t / x.tiles_across() * kTile;
    const int64_t col = t % x.tiles_across() * kTile + lane;
    if (threadIdx.x < kTile) {
      int e = ExpertOfRow(spec.offsets, spec.experts, top + threadIdx.x);
      if (top + threadIdx.x >= x.rows ||
          (e < spec.experts && !NeedsTensorAmax(ScaleOfExpert(spec, e)))) {
        e = spec.experts;
      }
      rows.expert[threadIdx.x] = e;
      rows.amax[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x / kTile; i < kTile; i += kRowsAtOnce) {
      uint32_t bits = 0;
      if (rows.expert[i] < spec.experts && col < x.cols) {
        bits = AmaxBits(x.at(top + i, col));
      }
      bits = device::WarpMax(bits);
      if (threadIdx.x % 32 == 0 && bits != 0) atomicMax(&rows.amax[i], bits);
    }
    __syncthreads();
    if (threadIdx.x < kTile && rows.amax[threadIdx.x] != 0) {
      device::RaiseWord(spec.amaxes + rows.expert[threadIdx.x],
                        rows.amax[threadIdx.x]);
    }
    __syncthreads();
  }
}

template <typename In, Format kFormat>
__global__ void __launch_bounds__(kThreads)
    CastExperts(Source<In> x, GroupedSpec spec, GroupedOutput out) {
  __shared__ TileRows rows;
  __shared__ float scales[kTile];
  __shared__ uint8_t codes[kTile][kTile + 4];
  if (blockIdx.x == 0) {
    for (int e = threadIdx.x; e < spec.experts; e += kThreads) {
      out.scale_inv[e * kGroupedScaleStride] =
          ScaleInverse(ResolveScale(ScaleOfExpert(spec, e)));
    }
  }
  const int lane = threadIdx.x % kTile;
  for (int64_t t = blockIdx.x; t < x.tiles(); t += gridDim.x) {
    const int64_t top = t / x.tiles_across() * kTile;
    const int64_t left = t % x.tiles_across() * kTile;
    if (threadIdx.x < kTile) {
      const int64_t row = top + threadIdx.x;
      const int e = row < x.rows ? ExpertOfRow(spec.offsets, spec.experts, row)
                                 : spec.experts;
      rows.expert[threadIdx.x] = e;
      rows.amax[threadIdx.x] = 0;
      scales[threadIdx.x] =
          e < spec.experts ? ResolveScale(ScaleOfExpert(spec, e)) : 1.0f;
    }
    __syncthreads();
    const int64_t col = left + lane;
    for (int i = threadIdx.x / kTile; i < kTile; i += kRowsAtOnce) {
      uint32_t bits = 0;
      if (rows.expert[i] < spec.experts && col < x.cols) {
        const float value = x.at(top + i, col);
        bits = AmaxBits(value);
        const auto code = static_cast<uint8_t>(
            device::EncodePair<kFormat>(value * scales[i], 0.0f));
        if (out.row_wise != nullptr) {
          out.row_wise[(top + i) * x.cols + col] = code;
        }
        codes[i][lane] = code;
      }
      if (!out.observe) continue;
      bits = device::WarpMax(bits);
      if (threadIdx.x % 32 == 0 && bits != 0) atomicMax(&rows.amax[i], bits);
    }
    __syncthreads();
    if (out.column_wise != nullptr) {
      // A column of the tile at a time, rows running fastest.
      const int e = rows.expert[lane];
      if (e < spec.experts) {
        const int64_t begin = spec.offsets[e];
        const int64_t length = spec.offsets[e + 1] - begin;
        uint8_t* base = out.column_wise + begin * x.cols + (top + lane - begin);
        for (int c = threadIdx.x / kTile; c < kTile && left + c < x.cols;
             c += kRowsAtOnce) {
          base[(left + c) * length] = codes[lane][c];
        }
      }
    }
    if (out.observe && threadIdx.x < kTile && rows.amax[threadIdx.x] != 0) {
      device::RaiseWord(spec.slots[rows.expert[threadIdx.x]].amax,
                        rows.amax[threadIdx.x]);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads)
    DecodeExperts(GroupedSpec spec, const uint8_t* row_wise,
                  const uint8_t* column_wise, const float* scale_inv,
                  TensorView out) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < out.rows * out.cols; i += stride) {
    const int64_t row = i / out.cols;
    const int64_t col = i - row * out.cols;
    const int e = ExpertOfRow(spec.offsets, spec.experts, row);
    float value = 0;
    if (e < spec.experts) {
      const int64_t begin = spec.offsets[e];
      const int64_t length = spec.offsets[e + 1] - begin;
      const uint8_t code =
          row_wise != nullptr
              ? row_wise[i]
              : column_wise[begin * out.cols + col * length + row - begin];
      value = Decode(spec.format, code) * scale_inv[e * kGroupedScaleStride];
    }
    StoreFloat(out.dtype, value, out.data,
               row * out.row_stride + col * out.col_stride);
  }
}

unsigned Blocks(int64_t wanted) {
  return static_cast<unsigned>(wanted < 1            ? 1
                               : wanted > kMaxBlocks ? kMaxBlocks
                                                     : wanted);
}

}  // namespace

absl::Status GroupedOffsets(int device, const int64_t* counts, int experts,
                            int64_t rows, int64_t* offsets, Stream stream) {
  SK_ASSIGN_OR_RETURN(const CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(device));
  Offsets<<<1, 1, 0, AsCudaStream(stream)>>>(counts, experts, rows, offsets);
  return LaunchStatus("GroupedOffsets");
}

absl::Status GroupedAmax(const ConstTensorView& x, const GroupedSpec& spec,
                         Stream stream) {
  if (x.empty()) return absl::OkStatus();
  SK_ASSIGN_OR_RETURN(const CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  return WithType(x.dtype, [&](auto in) {
    const auto source = SourceOf<decltype(in)>(x);
    AmaxOfExperts<<<Blocks(source.tiles()), kThreads, 0,
                    AsCudaStream(stream)>>>(source, spec);
    return LaunchStatus("GroupedAmax");
  });
}

absl::Status GroupedCast(const ConstTensorView& x, const GroupedSpec& spec,
                         const GroupedOutput& out, Stream stream) {
  SK_ASSIGN_OR_RETURN(const CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(x.device.index));
  return WithType(x.dtype, [&](auto in) {
    const auto source = SourceOf<decltype(in)>(x);
    const unsigned blocks = Blocks(source.tiles());
    if (spec.format == Format::kE4M3) {
      CastExperts<decltype(in), Format::kE4M3>
          <<<blocks, kThreads, 0, AsCudaStream(stream)>>>(source, spec, out);
    } else {
      CastExperts<decltype(in), Format::kE5M2>
          <<<blocks, kThreads, 0, AsCudaStream(stream)>>>(source, spec, out);
    }
    return LaunchStatus("GroupedCast");
  });
}

absl::Status GroupedDecode(const GroupedSpec& spec, const uint8_t* row_wise,
                           const uint8_t* column_wise, const float* scale_inv,
                           const TensorView& out, Stream stream) {
  if (out.empty()) return absl::OkStatus();
  SK_ASSIGN_OR_RETURN(const CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(out.device.index));
  DecodeExperts<<<Blocks((out.size() + kThreads - 1) / kThreads), kThreads, 0,
                  AsCudaStream(stream)>>>(spec, row_wise, column_wise,
                                          scale_inv, out);
  return LaunchStatus("GroupedDecode");
}

}  // namespace scalekeeper::kernels::cuda
