#include "benchmarks/refresh_cuda.h"

namespace scalekeeper {
namespace {

constexpr int kBlock = 256;

// Every block counts for itself.
__global__ void RefreshKernel(Refresh refresh) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const uint32_t call = refresh.counters[blockIdx.x];
  if (i < refresh.count) {
    uint32_t bits = 0x7F000000u;
    if (refresh.observed == Observed::kFalling) {
      bits -= call;
    } else if (refresh.observed == Observed::kTrace) {
      const int row = static_cast<int>(call) % refresh.trace_rows;
      bits = refresh.trace[row * refresh.trace_cols + i % refresh.trace_cols];
    }
    *refresh.words[i] = bits;
  }
  __syncthreads();
  if (threadIdx.x == 0) refresh.counters[blockIdx.x] = call + 1;
}

}  // namespace

int Refresh::Blocks() const { return (count + kBlock - 1) / kBlock; }

cudaError_t QueueRefresh(const Refresh& refresh, cudaStream_t stream) {
  if (refresh.observed == Observed::kNone) return cudaSuccess;
  RefreshKernel<<<static_cast<unsigned>(refresh.Blocks()), kBlock, 0, stream>>>(
      refresh);
  return cudaGetLastError();
}

}  // namespace scalekeeper
