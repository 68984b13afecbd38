// Operands of custom scaling, read by their makers into plain values.
//
// A maker is other people's code: it may take locks, or multiply. So it is
// called before a backend takes a lock of its own, and its values lie in memory
// that is lent to this call alone. A tensor that comes again in the next
// product, as the tokens of grouped experts do, is read once.
//
// Threads: none. One per call of Matmul or GroupedMatmul.
//
// Example:
//   CustomOperands customs(&pool, DType::kF32, stream);
//   MatmulProblem plain = problem;
//   SK_RETURN_IF_ERROR(customs.Read(&plain));
#ifndef SCALEKEEPER_GEMM_CUSTOM_OPERANDS_H_
#define SCALEKEEPER_GEMM_CUSTOM_OPERANDS_H_

#include "absl/status/status.h"
#include "base/device.h"
#include "base/dtype.h"
#include "gemm/buffer_pool.h"
#include "gemm/matmul_problem.h"

namespace scalekeeper::internal {

inline bool HasCustom(const MatmulProblem& problem) {
  return problem.a.custom != nullptr || problem.b.custom != nullptr;
}

class CustomOperands {
 public:
  // Values of `dtype`, in memory of `pool`, which is borrowed and of the
  // tensors' device; queued on `stream`.
  CustomOperands(BufferPool* pool, DType dtype, Stream stream)
      : pool_(pool), dtype_(dtype), stream_(stream) {}

  // Puts plain values in the place of custom operands, if there are any and
  // their elements matter. They are there until the next Read of a problem with
  // other custom tensors, in stream order. Fails where a maker does.
  absl::Status Read(MatmulProblem* problem);

 private:
  struct Held {
    const QuantizedTensor* tensor = nullptr;
    BufferPool::Lease memory;
  };
  absl::Status ReadOne(Held* held, MatmulInput* input);

  BufferPool* const pool_;
  const DType dtype_;
  const Stream stream_;
  Held a_, b_;
};

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_CUSTOM_OPERANDS_H_
