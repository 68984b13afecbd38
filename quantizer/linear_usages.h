// Which copies of its tensors a linear layer needs, from the precision of its
// three GEMMs.
//
// A GPU multiplies 8-bit codes along the dimension that runs fastest, and block
// scalings quantize along it:
//
//   GEMM                reads row-wise     reads column-wise
//   fprop  y = x w^T    input, weight
//   dgrad  dx = dy w    grad               weight
//   wgrad  dw = dy^T x                     grad, input
//
// A GEMM that the recipe keeps in high precision reads no quantized copy: none
// is made for it. A tensor without any use need not be quantized at all
// (Usages::any), and observes nothing.
//
// Example:
//   const LinearUsages usages = GetLinearUsages(*state, "layers.0.fc1");
//   if (usages.input.any()) {
//     input_quantizer->set_usages(usages.input);
//     SK_ASSIGN_OR_RETURN(x8, input_quantizer->Quantize(x, stream));
//   }
#ifndef SCALEKEEPER_QUANTIZER_LINEAR_USAGES_H_
#define SCALEKEEPER_QUANTIZER_LINEAR_USAGES_H_

#include "absl/strings/string_view.h"
#include "amax/recipe_state.h"
#include "quantizer/quantized_tensor.h"
#include "recipe/policy.h"

namespace scalekeeper {

struct LinearUsages {
  Usages input, weight, grad;

  const Usages& of(Role role) const {
    return role == Role::kInput ? input : role == Role::kWeight ? weight : grad;
  }
};

// Of the phase that is active now; ask again when that changes. Ends the
// process, as RecipeState::gemm_policy does, before Freeze and for a module
// that was not added. `needs_dx`: false where the layer computes no dgrad, as
// the first of a model.
LinearUsages GetLinearUsages(const RecipeState& state, absl::string_view module,
                             bool needs_dx = true);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_LINEAR_USAGES_H_
