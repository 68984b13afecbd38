#include "quantizer/linear_usages.h"

namespace scalekeeper {

LinearUsages GetLinearUsages(const RecipeState& state, absl::string_view module,
                             bool needs_dx) {
  const auto reads_codes = [&](Gemm gemm) {
    return !state.gemm_policy(module, gemm).high_precision;
  };
  const bool fprop = reads_codes(Gemm::kFprop);
  const bool dgrad = needs_dx && reads_codes(Gemm::kDgrad);
  const bool wgrad = reads_codes(Gemm::kWgrad);
  LinearUsages usages;
  usages.input = {/*row_wise=*/fprop, /*column_wise=*/wgrad};
  usages.weight = {/*row_wise=*/fprop, /*column_wise=*/dgrad};
  usages.grad = {/*row_wise=*/dgrad, /*column_wise=*/wgrad};
  return usages;
}

}  // namespace scalekeeper
