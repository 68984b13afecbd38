// What a recipe's quantization does to a tensor: the work behind `scalekeeper
// accuracy`.
//
// The library's own quantizer makes each copy and reads it back; the errors are
// summed in double. A delayed policy follows its first_step rule in a fresh
// state (tools/tensor_quantizer.h).
//
// Example:
//   SK_ASSIGN_OR_RETURN(Accuracy a, MeasureAccuracy("mine", recipe, job, v));
//   if (a.row_wise && a.row_wise->statistics.sqnr_db() < 20) ...
#ifndef SCALEKEEPER_TOOLS_ACCURACY_H_
#define SCALEKEEPER_TOOLS_ACCURACY_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/buffer.h"
#include "quantizer/statistics.h"
#include "recipe/policy.h"
#include "recipe/recipe.h"
#include "tools/tensor_job.h"

namespace scalekeeper {

// Of one copy. What is compared with x is what Dequantize gives, so after the
// inverse transform where there is a Hadamard transform; counts are always of
// the values that the codes stand for.
struct CopyAccuracy {
  Statistics statistics;
  // Over finite elements: max |x - x^| / max |x|, 0 if nothing is lost.
  double max_error = 0;
  // Over finite elements with x != 0 and x^ != 0 (those that underflow have 1):
  // max |x - x^| / |x|.
  double max_relative_error = 0;
};

struct Accuracy {
  std::string recipe;
  TensorJob job;
  Policy policy;
  // The copies that the recipe's GEMMs read.
  std::optional<CopyAccuracy> row_wise;
  std::optional<CopyAccuracy> column_wise;
  // Both are there and read back as the same values.
  bool same = false;
};

// `values` as TensorValues gives them; `name` is what the report calls the
// recipe. Errors as of MakeTensorQuantizer.
absl::StatusOr<Accuracy> MeasureAccuracy(absl::string_view name,
                                         const Recipe& recipe,
                                         const TensorJob& job,
                                         const Buffer& values);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_ACCURACY_H_
