// Dequantizer: reads codes that only their maker understands.
//
// A QuantizedTensor of custom scaling carries one, so that Dequantize and
// Matmul need not know what made it. Every Quantizer is one; a program
// overrides Quantizer::DequantizeImpl.
//
// Threads: any number of calls at once. Ownership: the tensor borrows it.
//
// Example:
//   if (q.scaling == Scaling::kCustom) {
//     return q.dequantizer->DequantizeTo(q, out, stream);
//   }
#ifndef SCALEKEEPER_QUANTIZER_DEQUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_DEQUANTIZER_H_

#include "absl/status/status.h"
#include "base/device.h"
#include "base/tensor_view.h"

namespace scalekeeper {

struct QuantizedTensor;

class Dequantizer {
 public:
  virtual ~Dequantizer() = default;

  // out = the values of `q`, rounded to out's dtype; from row-wise data, or
  // from column-wise data where only that exists. Arguments that
  // CheckDequantize (quantizer/dequantize.h) accepts. Queued on `stream`; no
  // allocation. Unimplemented where the maker cannot.
  virtual absl::Status DequantizeTo(const QuantizedTensor& q,
                                    const TensorView& out,
                                    Stream stream) const = 0;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_DEQUANTIZER_H_
