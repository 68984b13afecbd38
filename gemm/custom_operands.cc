#include "gemm/custom_operands.h"

#include <cstddef>
#include <utility>

#include "base/status_macros.h"
#include "quantizer/dequantizer.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper::internal {

absl::Status CustomOperands::Read(MatmulProblem* problem) {
  if (problem->out.empty() || problem->a.values.cols == 0) {
    return absl::OkStatus();
  }
  SK_RETURN_IF_ERROR(ReadOne(&a_, &problem->a));
  return ReadOne(&b_, &problem->b);
}

absl::Status CustomOperands::ReadOne(Held* held, MatmulInput* input) {
  if (input->custom == nullptr) return absl::OkStatus();
  const QuantizedTensor& q = *input->custom;
  if (held->tensor != &q) {
    const size_t bytes = static_cast<size_t>(q.rows * q.cols) * SizeOf(dtype_);
    held->tensor = nullptr;
    if (held->memory.size() < bytes) {
      SK_ASSIGN_OR_RETURN(held->memory, pool_->Take(bytes));
    }
    SK_RETURN_IF_ERROR(q.dequantizer->DequantizeTo(
        q,
        TensorView::Contiguous(held->memory.data(), dtype_, q.rows, q.cols,
                               q.device),
        stream_));
    held->tensor = &q;
  }
  *input = DequantizedIn(*input, held->memory.data(), dtype_, q.cols);
  return absl::OkStatus();
}

}  // namespace scalekeeper::internal
