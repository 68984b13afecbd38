// Observes into the slots of a state as kernels of a training step would, for
// exchange_cuda_benchmark: a kernel that writes the amaxes of the coming step.
//
// Queues on the stream, allocates nothing, can be captured. `counters`: one
// word per block, which counts the calls.
#ifndef SCALEKEEPER_BENCHMARKS_REFRESH_CUDA_H_
#define SCALEKEEPER_BENCHMARKS_REFRESH_CUDA_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace scalekeeper {

enum class Observed {
  kNone,      // nothing is pushed
  kConstant,  // the same each step
  kFalling,   // what leaves a window is always its maximum: the worst case
  kTrace,     // row `call % trace_rows` of a trace, its columns in turn
};

struct Refresh {
  Observed observed = Observed::kNone;
  uint32_t** words = nullptr;  // `count` slots' amax words
  int count = 0;
  uint32_t* counters = nullptr;
  const uint32_t* trace = nullptr;  // bits, trace_rows x trace_cols
  int trace_rows = 0;
  int trace_cols = 0;

  int Blocks() const;
};

cudaError_t QueueRefresh(const Refresh& refresh, cudaStream_t stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BENCHMARKS_REFRESH_CUDA_H_
