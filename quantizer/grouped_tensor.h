// A tensor whose rows belong to several experts, each with its own scale.
//
// Made by a GroupedQuantizer, multiplied by GroupedMatmul
// (gemm/grouped_matmul.h). Move-only; owns its memory, so its scale_inv never
// changes when a slot's scale moves.
//
// Example: quantizer/grouped_quantizer.h.
#ifndef SCALEKEEPER_QUANTIZER_GROUPED_TENSOR_H_
#define SCALEKEEPER_QUANTIZER_GROUPED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/buffer.h"
#include "base/device.h"
#include "numerics/format.h"
#include "recipe/policy.h"

namespace scalekeeper {

struct GroupedTensor {
  int64_t rows = 0;  // padding included
  int64_t cols = 0;
  int experts = 0;
  Scaling scaling = Scaling::kDelayed;
  Format format = Format::kE4M3;
  Device device;
  // Empty where the usage was not asked for.
  Buffer row_wise;     // R x C codes
  Buffer column_wise;  // per expert C x R_e codes, from byte offsets[e] * C on
  // float32, one per expert, of both uses; kGroupedScaleStride apart
  // (quantizer/grouped_kernels.h).
  Buffer scale_inv;
  Buffer offsets;  // int64, experts + 1: where their rows begin
  Buffer amaxes;   // uint32, one per expert: scratch

  size_t bytes() const {
    return row_wise.size() + column_wise.size() + scale_inv.size() +
           offsets.size() + amaxes.size();
  }
};

// "4 experts, delayed E4M3 128x256 on host".
std::string Describe(const GroupedTensor& tensor);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_GROUPED_TENSOR_H_
