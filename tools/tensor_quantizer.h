// The quantizer that a recipe gives one tensor, in a state of its own: what
// commands that quantize files share.
//
// The state is fresh, so a delayed policy follows its first_step rule: MEASURE
// scales with the tensor's amax, UNIT with 1. There is one rank: groups are
// left out.
//
// Example:
//   SK_ASSIGN_OR_RETURN(TensorQuantizer own, MakeTensorQuantizer(recipe, job));
//   own.quantizer->set_usages(own.usages);  // the copies that training makes
//   SK_ASSIGN_OR_RETURN(QuantizedTensor q, own.quantizer->Quantize(x, {}));
#ifndef SCALEKEEPER_TOOLS_TENSOR_QUANTIZER_H_
#define SCALEKEEPER_TOOLS_TENSOR_QUANTIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "amax/recipe_state.h"
#include "quantizer/quantizer.h"
#include "recipe/policy.h"
#include "recipe/recipe.h"
#include "tools/tensor_job.h"

namespace scalekeeper {

struct TensorQuantizer {
  Policy policy;  // the recipe's, groups included
  // The copies that the GEMMs of a linear layer read; possibly none.
  Usages usages;
  std::unique_ptr<RecipeState> state;
  std::unique_ptr<Quantizer> quantizer;
};

// What the recipe says about job.module at job.step. Errors: the recipe's
// (InvalidArgument); FailedPrecondition where only job.modules would tell what
// the module gets, or where it is not among them; Unimplemented for custom
// scaling.
absl::StatusOr<TensorQuantizer> MakeTensorQuantizer(const Recipe& recipe,
                                                    const TensorJob& job);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_TENSOR_QUANTIZER_H_
