// The example of the README, compiled and run. Between the two marker lines
// stands exactly what the README shows; tests/docs compares them.
#include <cstdio>
#include <memory>
#include <vector>

#include "amax/recipe_state.h"
#include "base/status_macros.h"
#include "gemm/matmul.h"
#include "quantizer/quantizer.h"
#include "recipe/recipe.h"

namespace scalekeeper {

// y = x w^T in FP8 under a preset recipe, then one scale update.
// README begins
absl::Status TrainStep(ConstTensorView x, ConstTensorView w, TensorView y) {
  Stream stream;
  SK_ASSIGN_OR_RETURN(Recipe recipe, Recipe::Load("delayed_hybrid"));
  SK_ASSIGN_OR_RETURN(auto state, RecipeState::Create(recipe, {}));
  SK_ASSIGN_OR_RETURN(ModuleSlots fc1, state->AddModule("layers.0.fc1"));
  SK_RETURN_IF_ERROR(state->Freeze());
  SK_ASSIGN_OR_RETURN(auto qx, MakeQuantizer(state.get(), fc1.input, {}));
  SK_ASSIGN_OR_RETURN(auto qw, MakeQuantizer(state.get(), fc1.weight, {}));

  SK_ASSIGN_OR_RETURN(QuantizedTensor x8, qx->Quantize(x, stream));
  SK_ASSIGN_OR_RETURN(QuantizedTensor w8, qw->Quantize(w, stream));
  MatmulOptions options;
  options.transb = true;
  SK_RETURN_IF_ERROR(Matmul(x8, w8, y, options, stream));
  return state->EndStep(stream);  // one reduction, one update, every scale
}
// README ends

}  // namespace scalekeeper

int main() {
  using scalekeeper::ConstTensorView;
  using scalekeeper::DType;
  using scalekeeper::TensorView;
  std::vector<float> x(32 * 64, 0.5f), w(16 * 64, -3.0f), y(32 * 16);
  const absl::Status status = scalekeeper::TrainStep(
      ConstTensorView::Contiguous(x.data(), DType::kF32, 32, 64),
      ConstTensorView::Contiguous(w.data(), DType::kF32, 16, 64),
      TensorView::Contiguous(y.data(), DType::kF32, 32, 16));
  std::printf("%s, y[0] = %g\n", status.ToString().c_str(),
              static_cast<double>(y[0]));
  return status.ok() ? 0 : 1;
}
