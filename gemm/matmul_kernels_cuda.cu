#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/cuda/status_cuda.h"
#include "gemm/matmul_kernels_cuda.h"
#include "numerics/activation.h"
#include "numerics/amax.h"
#include "numerics/convert.h"
#include "numerics/format.h"

namespace scalekeeper {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;  // of the transposing copy
constexpr int64_t kMaxBlocks = 1 << 20;

unsigned BlocksFor(int64_t work, int64_t per_block) {
  return static_cast<unsigned>(
      std::min(kMaxBlocks, (work + per_block - 1) / per_block));
}

absl::Status LaunchStatus(absl::string_view kernel) {
  return CudaStatus(cudaGetLastError(), kernel);
}

__device__ int64_t GlobalThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ int64_t GlobalThreads() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

// A thread makes 16 bytes of the destination; its neighbour's reads are next to
// its own when the source's columns are.
template <typename T>
__global__ void PackKernel(PackArguments p) {
  constexpr int kPerThread = 16 / sizeof(T);
  const int64_t chunks_per_row = p.padded_cols / kPerThread;
  const int64_t chunks = p.padded_rows * chunks_per_row;
  const T* source = static_cast<const T*>(p.source);
  for (int64_t i = GlobalThread(); i < chunks; i += GlobalThreads()) {
    const int64_t row = i / chunks_per_row;
    const int64_t first_col = (i - row * chunks_per_row) * kPerThread;
    alignas(16) T values[kPerThread];
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t col = first_col + j;
      values[j] = row < p.rows && col < p.cols
                      ? source[row * p.row_stride + col * p.col_stride]
                      : T(0);
    }
    static_cast<uint4*>(p.destination)[i] =
        *reinterpret_cast<const uint4*>(values);
  }
}

// The same through shared memory, for a source whose rows are next to each
// other: both sides move whole 32-element segments.
template <typename T>
__global__ void TransposingPackKernel(PackArguments p) {
  __shared__ T tile[kTile][kTile + 4 / sizeof(T)];
  const T* source = static_cast<const T*>(p.source);
  T* destination = static_cast<T*>(p.destination);
  const int64_t tiles_across = (p.padded_cols + kTile - 1) / kTile;
  const int64_t tiles = (p.padded_rows + kTile - 1) / kTile * tiles_across;
  const int lane = threadIdx.x % kTile;
  const int line = threadIdx.x / kTile;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t row0 = t / tiles_across * kTile;
    const int64_t col0 = t % tiles_across * kTile;
    for (int i = line; i < kTile; i += kThreads / kTile) {
      const int64_t row = row0 + lane;
      const int64_t col = col0 + i;
      tile[i][lane] = row < p.rows && col < p.cols
                          ? source[row * p.row_stride + col * p.col_stride]
                          : T(0);
    }
    __syncthreads();
    for (int i = line; i < kTile; i += kThreads / kTile) {
      const int64_t row = row0 + i;
      const int64_t col = col0 + lane;
      if (row < p.padded_rows && col < p.padded_cols) {
        destination[row * p.padded_cols + col] = tile[lane][i];
      }
    }
    __syncthreads();
  }
}

// words[j] holds four bytes of column j; afterwards those of row j.
__device__ void Transpose4x4(uint32_t (&words)[4]) {
  const uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
  const uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
  const uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
  const uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low01, low23, 0x5410);
  words[1] = __byte_perm(low01, low23, 0x7632);
  words[2] = __byte_perm(high01, high23, 0x5410);
  words[3] = __byte_perm(high01, high23, 0x7632);
}

// The same for bytes, four at a time: a thread transposes 4 x 4 in registers, a
// block 64 x 64, in segments of 64 bytes on both sides. Wants source, its
// column stride and padded_cols in multiples of 4.
__global__ void TransposingPackBytesKernel(PackArguments p) {
  constexpr int kSide = 64;
  constexpr int kWords = kSide / 4;
  __shared__ uint32_t tile[kSide][kWords + 1];
  const uint8_t* source = static_cast<const uint8_t*>(p.source);
  uint8_t* destination = static_cast<uint8_t*>(p.destination);
  const int64_t tiles_across = (p.padded_cols + kSide - 1) / kSide;
  const int64_t tiles = (p.padded_rows + kSide - 1) / kSide * tiles_across;
  const int word = threadIdx.x % kWords;
  const int line = threadIdx.x / kWords;  // 0..15
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t row0 = t / tiles_across * kSide;
    const int64_t col0 = t % tiles_across * kSide;
    const int64_t row = row0 + 4 * word;
    uint32_t words[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t col = col0 + 4 * line + j;
      if (col >= p.cols) continue;
      const uint8_t* from = source + col * p.col_stride + row;
      if (row + 4 <= p.rows) {
        words[j] = *reinterpret_cast<const uint32_t*>(from);
      } else {
        for (int i = 0; i < 4 && row + i < p.rows; ++i) {
          words[j] |= static_cast<uint32_t>(from[i]) << (8 * i);
        }
      }
    }
    Transpose4x4(words);
#pragma unroll
    for (int i = 0; i < 4; ++i) tile[4 * word + i][line] = words[i];
    __syncthreads();
    const int64_t col = col0 + 4 * word;
    for (int i = line; i < kSide; i += kThreads / kWords) {
      if (row0 + i < p.padded_rows && col < p.padded_cols) {
        *reinterpret_cast<uint32_t*>(destination + (row0 + i) * p.padded_cols +
                                     col) = tile[i][word];
      }
    }
    __syncthreads();
  }
}

// True where the kernel above is.
bool IsWordTransposition(const PackArguments& p) {
  return p.element_bytes == 1 && p.row_stride == 1 && p.col_stride % 4 == 0 &&
         p.padded_cols % 4 == 0 &&
         reinterpret_cast<uintptr_t>(p.source) % 4 == 0;
}

template <typename T>
void LaunchPack(const PackArguments& p, cudaStream_t stream) {
  constexpr int64_t kBytes = sizeof(T);
  if ((p.row_stride == 1 && p.col_stride > 1) ||
      p.padded_cols * kBytes % 16 != 0) {
    const int64_t tiles = ((p.padded_rows + kTile - 1) / kTile) *
                          ((p.padded_cols + kTile - 1) / kTile);
    TransposingPackKernel<T><<<BlocksFor(tiles, 1), kThreads, 0, stream>>>(p);
  } else {
    const int64_t chunks = p.padded_rows * p.padded_cols * kBytes / 16;
    PackKernel<T><<<BlocksFor(chunks, kThreads), kThreads, 0, stream>>>(p);
  }
}

__device__ float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kRelu:
      return Relu(x);
    case Activation::kGelu:
      return Gelu(x);
    default:
      return x;
  }
}

// Raises *slot.amax to the largest of the warp's; every lane must come here.
__device__ void ObserveWarp(const SlotView& slot, uint32_t amax) {
  const uint32_t largest = __reduce_max_sync(0xFFFFFFFFu, amax);
  if (threadIdx.x % 32 == 0 && largest != 0) atomicMax(slot.amax, largest);
}

__device__ double FactorAt(const OuterScale& scale, int64_t i) {
  return scale.data == nullptr ? 1.0 : scale.data[i * scale.stride];
}

// Threads in x walk along a row, so that bias and rows are read in segments.
__global__ void FinishKernel(FinishArguments p) {
  const int64_t rows = p.out.rows;
  const int64_t cols = p.out.cols;
  const float scale = p.is_quantized ? *p.quantized.slot.scale : 1.0f;
  uint32_t amax = 0;
  for (int64_t r = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
       r < rows; r += static_cast<int64_t>(gridDim.y) * blockDim.y) {
    for (int64_t c = GlobalThread(); c < cols; c += GlobalThreads()) {
      float value =
          p.sums == nullptr ? 0.0f : p.sums[r * p.sums_row_stride + c];
      if (p.row_scale.data != nullptr || p.col_scale.data != nullptr) {
        // In double: the product of the factors alone may overflow.
        value = static_cast<float>(value * FactorAt(p.row_scale, r) *
                                   FactorAt(p.col_scale, c));
      }
      if (p.has_bias) {
        value += LoadFloat(p.bias.dtype, p.bias.data, c * p.bias.col_stride);
      }
      value = Activate(p.activation, value);
      const int64_t at = r * p.out.row_stride + c * p.out.col_stride;
      if (p.is_quantized) {
        amax = MaxBits(amax, AmaxBits(value));
        static_cast<uint8_t*>(p.out.data)[at] =
            Encode(p.quantized.format, value * scale);
        continue;
      }
      if (p.accumulate) value += LoadFloat(p.out.dtype, p.out.data, at);
      StoreFloat(p.out.dtype, value, p.out.data, at);
    }
  }
  if (p.is_quantized) ObserveWarp(p.quantized.slot, amax);
}

__global__ void FoldKernel(FoldArguments p) {
  // No product writes it, so it may be read before the last one has ended.
  const float scale_inv = *p.slot.scale_inv;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (p.observed != nullptr) {
    // Past the caches of this multiprocessor: the product has just set it.
    atomicMax(p.slot.amax, __ldcg(p.observed) & kFloatMagnitudeMask);
  }
  if (p.row_wise_scale_inv != nullptr) *p.row_wise_scale_inv = scale_inv;
  if (p.column_wise_scale_inv != nullptr) *p.column_wise_scale_inv = scale_inv;
}

// A counter-based hash (the finalizer of MurmurHash3): no state, any order.
__device__ uint32_t Mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}

__global__ void FillRandomKernel(cudaDataType_t type, void* data,
                                 int64_t count) {
  for (int64_t i = GlobalThread(); i < count; i += GlobalThreads()) {
    const uint32_t bits = Mix(static_cast<uint32_t>(i) * 2654435761u + 1u);
    // The sum of four uniform bytes, with variance 1 and mean 0.
    const uint32_t sum = (bits & 0xFFu) + ((bits >> 8) & 0xFFu) +
                         ((bits >> 16) & 0xFFu) + (bits >> 24);
    const float normal = (static_cast<float>(sum) - 510.0f) * (1.0f / 147.8f);
    switch (type) {
      case CUDA_R_8F_E4M3:
        static_cast<uint8_t*>(data)[i] =
            Encode(Format::kE4M3, normal * (FormatMax(Format::kE4M3) / 4));
        break;
      case CUDA_R_8F_E5M2:
        static_cast<uint8_t*>(data)[i] =
            Encode(Format::kE5M2, normal * (FormatMax(Format::kE5M2) / 4));
        break;
      case CUDA_R_16BF:
        StoreFloat(DType::kBF16, normal, data, i);
        break;
      case CUDA_R_16F:
        StoreFloat(DType::kF16, normal, data, i);
        break;
      default:
        StoreFloat(DType::kF32, normal, data, i);
        break;
    }
  }
}

template <typename... Kernels>
void Load(Kernels... kernels) {
  cudaFuncAttributes attributes;
  ((void)cudaFuncGetAttributes(&attributes, kernels), ...);
  (void)cudaGetLastError();
}

}  // namespace

void LoadMatmulKernels() {
  Load(PackKernel<uint8_t>, PackKernel<uint16_t>, PackKernel<uint32_t>,
       TransposingPackKernel<uint8_t>, TransposingPackKernel<uint16_t>,
       TransposingPackKernel<uint32_t>, TransposingPackBytesKernel,
       FinishKernel, FoldKernel);
}

absl::Status PackOnDevice(const PackArguments& p, cudaStream_t stream) {
  if (p.padded_rows == 0 || p.padded_cols == 0) return absl::OkStatus();
  if (IsWordTransposition(p)) {
    const int64_t tiles =
        (p.padded_rows + 63) / 64 * ((p.padded_cols + 63) / 64);
    TransposingPackBytesKernel<<<BlocksFor(tiles, 1), kThreads, 0, stream>>>(p);
    return LaunchStatus("TransposingPackBytesKernel");
  }
  switch (p.element_bytes) {
    case 1:
      LaunchPack<uint8_t>(p, stream);
      break;
    case 2:
      LaunchPack<uint16_t>(p, stream);
      break;
    default:
      LaunchPack<uint32_t>(p, stream);
      break;
  }
  return LaunchStatus("PackKernel");
}

absl::Status FinishOnDevice(const FinishArguments& p, cudaStream_t stream) {
  if (p.out.empty()) return absl::OkStatus();
  constexpr int64_t kMaxGridY = 32768;
  const dim3 block(64, kThreads / 64);
  const dim3 grid(BlocksFor(p.out.cols, block.x),
                  static_cast<unsigned>(std::min<int64_t>(
                      kMaxGridY, (p.out.rows + block.y - 1) / block.y)));
  FinishKernel<<<grid, block, 0, stream>>>(p);
  return LaunchStatus("FinishKernel");
}

absl::Status FoldOnDevice(const FoldArguments& p, cudaStream_t stream) {
  int device = 0;
  int major = 0;
  SK_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  SK_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(
      &major, cudaDevAttrComputeCapabilityMajor, device));
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = major >= 9 ? 1 : 0;
  SK_CUDA_RETURN_IF_ERROR(cudaLaunchKernelEx(&config, FoldKernel, p));
  return absl::OkStatus();
}

absl::Status FillRandomOnDevice(cudaDataType_t type, void* data, int64_t count,
                                cudaStream_t stream) {
  if (count == 0) return absl::OkStatus();
  FillRandomKernel<<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
      type, data, count);
  return LaunchStatus("FillRandomKernel");
}

}  // namespace scalekeeper
