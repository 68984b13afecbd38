// What the per-tensor quantizers share: the buffers of a QuantizedTensor as the
// outputs of kernels. Internal to this package.
#ifndef SCALEKEEPER_QUANTIZER_PER_TENSOR_H_
#define SCALEKEEPER_QUANTIZER_PER_TENSOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/tensor_view.h"
#include "quantizer/kernels.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

// Pointers into a tensor made by AllocatePerTensor; null for absent uses.
struct PerTensorBuffers {
  kernels::AmaxScratch* amax = nullptr;  // of this tensor alone
  float* row_wise_scale_inv = nullptr;
  float* column_wise_scale_inv = nullptr;
  kernels::CastOutput codes;
};

inline PerTensorBuffers BuffersOf(QuantizedTensor* tensor) {
  PerTensorBuffers buffers;
  buffers.amax = tensor->workspace.as<kernels::AmaxScratch>();
  if (tensor->row_wise) {
    buffers.codes.row_wise = tensor->row_wise->codes.as<uint8_t>();
    buffers.row_wise_scale_inv = tensor->row_wise->scale_inv.as<float>();
  }
  if (tensor->column_wise) {
    buffers.codes.column_wise = tensor->column_wise->codes.as<uint8_t>();
    buffers.column_wise_scale_inv = tensor->column_wise->scale_inv.as<float>();
  }
  return buffers;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_PER_TENSOR_H_
