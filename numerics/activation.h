// Activations of a GEMM's epilogue.
//
// Relu: max(x, 0), keeps NaN. Gelu: the tanh form, x/2 (1 + tanh(sqrt(2/pi) (x
// + 0.044715 x^3))) of Hendrycks and Gimpel, "Gaussian Error Linear Units"
// (2016), which is what cuBLASLt's GELU epilogue computes. T is double on the
// host and float on a GPU: they differ by rounding (float: at most 4e-6 of
// |x|), so an activation that is not exact is outside the bit parity of
// numerics.
#ifndef SCALEKEEPER_NUMERICS_ACTIVATION_H_
#define SCALEKEEPER_NUMERICS_ACTIVATION_H_

#include <cmath>

#include "numerics/host_device.h"

namespace scalekeeper {

template <typename T>
SK_HOST_DEVICE inline T Relu(T x) {
  return x < T(0) ? T(0) : x;
}

template <typename T>
SK_HOST_DEVICE inline T Gelu(T x) {
  constexpr T kSqrt2OverPi = T(0.79788456080286535588);
  return T(0.5) * x *
         (T(1) + std::tanh(kSqrt2OverPi * (x + T(0.044715) * x * x * x)));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_NUMERICS_ACTIVATION_H_
