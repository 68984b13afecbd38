// The host kernels behind quantizer/block_kernels.h: same contracts, no Status,
// finished on return. `amax` words are raised without atomics. Internal to this
// package.
#ifndef SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_HOST_H_
#define SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_HOST_H_

#include <cstdint>

#include "base/tensor_view.h"
#include "numerics/format.h"
#include "quantizer/block_kernels.h"

namespace scalekeeper::kernels::host {

void BlockCast(const ConstTensorView& x, const BlockCastSpec& spec,
               const BlockCastOutput& out);

// Bits of max |x'|, x' the Hadamard transform of x along its columns.
uint32_t HadamardAmax(const ConstTensorView& x);

void LineAmaxes(const ConstTensorView& x, uint32_t* row_amax,
                uint32_t* col_amax);

void BlockDecode(const uint8_t* codes, Format format, const BlockScales& scales,
                 bool hadamard, const TensorView& out);

}  // namespace scalekeeper::kernels::host

#endif  // SCALEKEEPER_QUANTIZER_BLOCK_KERNELS_HOST_H_
