// What lies in QuantizedTensor::workspace: device words with which a tensor is
// quantized without an allocation.
//
// Every scaling but kHighPrecision has a kernels::AmaxScratch. Behind it are
// amaxes: of kNvfp4 the tensor's for the row-wise and for the column-wise
// use, of kRowwise those of the R rows and then of the C columns.
//
// Example:
//   QuantizeWorkspace words(&tensor);
//   SK_RETURN_IF_ERROR(kernels::LineAmaxes(
//       x, words.amaxes, words.amaxes + tensor.rows, run, stream));
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZE_WORKSPACE_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZE_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "quantizer/kernels.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

struct QuantizeWorkspace {
  // Pointers into `tensor`'s workspace; null in high precision.
  explicit QuantizeWorkspace(QuantizedTensor* tensor) {
    if (tensor->workspace.size() == 0) return;
    scratch = tensor->workspace.as<kernels::AmaxScratch>();
    amaxes = reinterpret_cast<uint32_t*>(scratch + 1);
  }

  static size_t Bytes(Scaling scaling, int64_t rows, int64_t cols) {
    if (scaling == Scaling::kHighPrecision) return 0;
    int64_t words = 0;
    if (scaling == Scaling::kNvfp4) words = 2;
    if (scaling == Scaling::kRowwise) words = rows + cols;
    return sizeof(kernels::AmaxScratch) +
           static_cast<size_t>(words) * sizeof(uint32_t);
  }

  kernels::AmaxScratch* scratch = nullptr;
  uint32_t* amaxes = nullptr;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZE_WORKSPACE_H_
