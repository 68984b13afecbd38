// One linear layer whose three GEMMs run on what its recipe says.
//
//   fprop  y  = act(x w^T + b)     x: T x in,  w: out x in,  y: T x out
//   dgrad  dx = dy w               dy: T x out
//   wgrad  dw = dy^T x
//
// Order of calls: construct, RecipeState::Freeze, MakeQuantizers, then Forward
// and Backward in pairs. Borrows its parameters and gradients on the host (out
// x in weights followed by out biases); tensors lie on the state's device. One
// thread at a time.
//
// A GEMM that the recipe keeps in high precision reads the tensors as they are,
// and no quantized copy is made for it (quantizer/linear_usages.h). Quantized
// tensors are kept from step to step, and written over.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/tensor_view.h"
#include "examples/train_digits/device_floats.h"
#include "gemm/matmul.h"
#include "quantizer/quantizer.h"

namespace scalekeeper {

class Linear {
 public:
  static int64_t ParameterCount(int64_t in, int64_t out) {
    return out * in + out;
  }

  struct Options {
    int64_t in = 0;
    int64_t out = 0;
    bool needs_dx = true;            // false: Backward is called with a null dx
    Allocator* allocator = nullptr;  // of quantized tensors; null: the default
  };

  Linear(RecipeState* state, std::string name, ModuleSlots slots,
         const Options& options, float* parameters, float* gradients);

  absl::Status MakeQuantizers();

  // x must live until Backward. Without `training` it runs under an
  // InferenceGuard, and what training keeps stays where it is.
  absl::Status Forward(ConstTensorView x, Activation activation, bool training,
                       TensorView y);
  // `dy_host` is dy on the host. Writes this layer's gradients, and dx unless
  // it is null.
  absl::Status Backward(ConstTensorView dy, const std::vector<float>& dy_host,
                        const TensorView* dx);

  // One line of the final table, for the tensors of the last training step.
  struct Report {
    std::string quantizer;  // "fc1/input"
    std::string scaling;    // "delayed E4M3"
    float scale = 0;
    float amax = 0;
    double underflow = 0;
    double saturation = 0;
  };
  // Of the quantizers that quantize; statistics of the tensors under the scales
  // that Quantize would use now.
  absl::StatusOr<std::vector<Report>> Reports(ConstTensorView x,
                                              ConstTensorView dy);

  // The scales that are the same on all ranks when everything is right: those
  // of delayed slots that are reduced, and of the weights under current
  // scaling.
  absl::StatusOr<std::vector<float>> SharedScales(bool reduced);

 private:
  // A role's quantizer and its tensor of the last training step, which the next
  // one writes over.
  struct Operand {
    std::unique_ptr<Quantizer> quantizer;
    std::optional<QuantizedTensor> kept;
    int phase = -1;  // in which it was made
  };

  TensorView Weight() {
    return parameters_on_device_.View(options_.out, options_.in);
  }
  Operand& operand(Role role) { return operands_[static_cast<size_t>(role)]; }
  // Into the operand's kept tensor, if any GEMM reads codes of it.
  absl::Status Quantize(Role role, ConstTensorView x);
  // One GEMM in the precision that the recipe gives it; null tensors are those
  // that no GEMM reads quantized.
  absl::Status Multiply(Gemm gemm, const std::optional<QuantizedTensor>& a8,
                        ConstTensorView a,
                        const std::optional<QuantizedTensor>& b8,
                        ConstTensorView b, TensorView out,
                        MatmulOptions options);
  absl::Status UploadParameters();

  RecipeState* state_;
  std::string name_;
  ModuleSlots slots_;
  Options options_;
  float* parameters_;
  float* gradients_;
  DeviceFloats parameters_on_device_;
  DeviceFloats gradients_on_device_;
  std::array<Operand, kRoles.size()> operands_;
  ConstTensorView x_;  // of the last Forward, for Backward
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_
