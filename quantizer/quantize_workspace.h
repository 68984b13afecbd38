// What lies in QuantizedTensor::workspace: device words with which a tensor is
// quantized without an allocation.
//
// Every scaling but kHighPrecision has two kernels::AmaxScratch; kNvfp4 has two
// tensor amaxes, kRowwise an amax per row and per column of the tensor. A
// reduction over ranks works on the amax words in place.
//
// Example:
//   QuantizeWorkspace words(&tensor);
//   SK_RETURN_IF_ERROR(kernels::LineAmaxes(x, words.row_amax, words.col_amax,
//                                          run, stream));
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZE_WORKSPACE_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZE_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "quantizer/kernels.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

struct QuantizeWorkspace {
  // Pointers into `tensor`'s workspace; null where its scaling has none.
  explicit QuantizeWorkspace(QuantizedTensor* tensor) {
    if (tensor->workspace.size() == 0) return;
    scratch = tensor->workspace.as<kernels::AmaxScratch>();
    uint32_t* words = reinterpret_cast<uint32_t*>(scratch + 2);
    if (tensor->scaling == Scaling::kNvfp4) tensor_amax = words;
    if (tensor->scaling == Scaling::kRowwise) {
      row_amax = words;
      col_amax = words + tensor->rows;
    }
  }

  static size_t Bytes(Scaling scaling, int64_t rows, int64_t cols) {
    if (scaling == Scaling::kHighPrecision) return 0;
    int64_t words = 0;
    if (scaling == Scaling::kNvfp4) words = 2;
    if (scaling == Scaling::kRowwise) words = rows + cols;
    return 2 * sizeof(kernels::AmaxScratch) +
           static_cast<size_t>(words) * sizeof(uint32_t);
  }

  kernels::AmaxScratch* scratch = nullptr;  // two
  uint32_t* tensor_amax = nullptr;  // of the row-wise, of the column-wise use
  uint32_t* row_amax = nullptr;     // R
  uint32_t* col_amax = nullptr;     // C
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZE_WORKSPACE_H_
