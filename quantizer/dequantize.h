// Dequantize and the checks of quantized tensors that need no Quantizer: what a
// tensor means is written in the tensor.
#ifndef SCALEKEEPER_QUANTIZER_DEQUANTIZE_H_
#define SCALEKEEPER_QUANTIZER_DEQUANTIZE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/device.h"
#include "base/tensor_view.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

// Checks that a tensor holds what its fields say: at least one use, with codes
// for rows x cols elements and the scales that cover them, of the scaling's
// type (none in high precision), or, custom, who reads it. InvalidArgument
// naming `what`.
absl::Status ValidateTensor(const QuantizedTensor& tensor,
                            absl::string_view what);

// InvalidArgument unless `view` is float32, bfloat16 or float16.
absl::Status CheckHighPrecision(const ConstTensorView& view,
                                absl::string_view what);

// Checks the arguments of a dequantization of `q` into `out`: InvalidArgument
// naming the argument on a shape, dtype or device that does not fit, or an
// `out` whose elements overlap.
absl::Status CheckDequantize(const QuantizedTensor& q, const TensorView& out);

// out = code value * scale_inv: a float32 product, rounded to out's dtype (the
// inverse Hadamard transform before that, where codes are of a transform); from
// row-wise data, or from column-wise data where only that exists; custom: what
// the tensor's Dequantizer makes of it. Arguments that CheckDequantize accepts.
absl::Status DequantizeTensor(const QuantizedTensor& q, const TensorView& out,
                              Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_DEQUANTIZE_H_
