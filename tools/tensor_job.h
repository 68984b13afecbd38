// A tensor in a file, and whose it is: what commands that quantize are told.
//
// Example:
//   const std::optional<TensorJob> job =
//       TensorJobOfFileName("dump/layers.4.fc2.grad.128x128.bf16");
//   // layers.4.fc2, grad, 128 x 128 of bfloat16; nullopt for another name
#ifndef SCALEKEEPER_TOOLS_TENSOR_JOB_H_
#define SCALEKEEPER_TOOLS_TENSOR_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/buffer.h"
#include "base/dtype.h"
#include "recipe/policy.h"

namespace scalekeeper {

struct TensorJob {
  std::string module;
  Role role = Role::kInput;
  int64_t step = 0;
  // All module names of the model; may be empty. Only rules by layer need them.
  std::vector<std::string> modules;
  DType dtype = DType::kF32;  // of the input
  int64_t rows = 0;
  int64_t cols = 0;
};

// What flags and file names say. InvalidArgument naming `what`, the text and
// what is allowed.
absl::Status ParseShape(absl::string_view what, absl::string_view text,
                        int64_t* rows, int64_t* cols);
absl::Status CheckModuleName(absl::string_view what, absl::string_view module);
absl::Status CheckStep(int64_t step);

// "input", "weight", "grad"; "bf16", "fp16", "fp32". They must be one of these.
Role RoleOfName(absl::string_view name);
DType DTypeOfName(absl::string_view name);

// Of a path that ends with MODULE.ROLE.ROWSxCOLS.DTYPE, as
// layers.4.fc2.grad.128x128.bf16; nullopt of any other.
std::optional<TensorJob> TensorJobOfFileName(absl::string_view path);

// The file's bytes; of one that is too large as many as tell so, and no more.
absl::StatusOr<std::string> ReadTensorFile(const TensorJob& job,
                                           const std::string& path);

// An aligned copy of `values`: rows x cols elements of the job's dtype,
// little-endian, row-major. InvalidArgument naming `source` on a size that does
// not fit.
absl::StatusOr<Buffer> TensorValues(const TensorJob& job,
                                    absl::string_view values,
                                    absl::string_view source);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_TENSOR_JOB_H_
