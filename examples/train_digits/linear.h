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
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
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

  Linear(RecipeState* state, std::string name, ModuleSlots slots, int64_t in,
         int64_t out, float* parameters, float* gradients);

  absl::Status MakeQuantizers();

  // x must live until Backward. Without `training` nothing is observed and
  // nothing kept.
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
  TensorView Weight() { return parameters_on_device_.View(out_, in_); }
  absl::Status UploadParameters();

  RecipeState* state_;
  std::string name_;
  ModuleSlots slots_;
  int64_t in_;
  int64_t out_;
  float* parameters_;
  float* gradients_;
  DeviceFloats parameters_on_device_;
  DeviceFloats gradients_on_device_;
  std::unique_ptr<Quantizer> input_quantizer_;
  std::unique_ptr<Quantizer> weight_quantizer_;
  std::unique_ptr<Quantizer> grad_quantizer_;
  // Of the last Forward, for Backward.
  ConstTensorView x_;
  QuantizedTensor input_;
  QuantizedTensor weight_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_
