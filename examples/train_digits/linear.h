// One linear layer whose three GEMMs run on what its recipe says.
//
//   fprop  y  = act(x w^T + b)     x: T x in,  w: out x in,  y: T x out
//   dgrad  dx = dy w               dy: T x out
//   wgrad  dw = dy^T x
//
// Order of calls: construct, RecipeState::Freeze, MakeQuantizers, then Forward
// and Backward in pairs. Borrows its parameters and gradients (out x in weights
// followed by out biases). One thread at a time.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
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

  // x: rows x in, y: rows x out, both row-major float32; x must live until
  // Backward. Without `training` nothing is observed and nothing kept.
  absl::Status Forward(const float* x, int64_t rows, Activation activation,
                       bool training, float* y);
  // dy: rows x out. Writes this layer's gradients, and dx unless it is null.
  absl::Status Backward(const float* dy, int64_t rows, float* dx);

  // One line of the final table, for the tensors of the last training step.
  struct Report {
    std::string quantizer;  // "fc1/input"
    std::string scaling;    // "delayed E4M3"
    float scale = 0;
    float amax = 0;
    double underflow = 0;
    double saturation = 0;
  };
  // Of the quantizers that quantize; statistics of `tensor` under their scales.
  absl::StatusOr<std::vector<Report>> Reports(const float* x, const float* dy,
                                              int64_t rows) const;

 private:
  ConstTensorView Weight() const;

  RecipeState* state_;
  std::string name_;
  ModuleSlots slots_;
  int64_t in_;
  int64_t out_;
  float* parameters_;
  float* gradients_;
  std::unique_ptr<Quantizer> input_quantizer_;
  std::unique_ptr<Quantizer> weight_quantizer_;
  std::unique_ptr<Quantizer> grad_quantizer_;
  // Of the last Forward, for Backward.
  const float* x_ = nullptr;
  QuantizedTensor input_;
  QuantizedTensor weight_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_LINEAR_H_
