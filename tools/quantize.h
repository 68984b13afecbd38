// Quantizes one tensor of a file as a recipe says: the work behind
// `scalekeeper quantize`.
//
// The library's own quantizer does it, in a fresh state, so a delayed policy
// follows its first_step rule: MEASURE scales with this tensor's amax, UNIT
// with 1.
#ifndef SCALEKEEPER_TOOLS_QUANTIZE_H_
#define SCALEKEEPER_TOOLS_QUANTIZE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "recipe/recipe.h"
#include "tools/tensor_job.h"

namespace scalekeeper {

// A file's name and contents.
using NamedContents = std::pair<std::string, std::string>;

struct QuantizedFiles {
  // codes.bin, scale_inv.bin, codes_t.bin, scale_inv_t.bin; of NVFP4 also
  // tensor_scale_inv.bin, tensor_scale_inv_t.bin; info.json.
  std::vector<NamedContents> files;
  // Names that the set of another scaling has and this one has not.
  std::vector<std::string> absent;
  std::string summary;  // one line for people
};

// `values` is rows x cols elements of `dtype`, little-endian, row-major.
// InvalidArgument on a size that does not fit, or what the recipe says about
// the module; FailedPrecondition where only the names of all modules would tell
// what the module gets.
absl::StatusOr<QuantizedFiles> QuantizeValues(const Recipe& recipe,
                                              const TensorJob& job,
                                              absl::string_view values,
                                              absl::string_view source);

// Writes all of them into `directory`, which is made if it does not exist, or
// none: temporary files first, then renames. The last file is removed before
// anything else is replaced and comes last, so that it stands for a whole set.
// Files named in `absent`, of an earlier set, are removed in between.
absl::Status WriteFileSet(const std::string& directory,
                          const std::vector<NamedContents>& files,
                          const std::vector<std::string>& absent = {});

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_QUANTIZE_H_
