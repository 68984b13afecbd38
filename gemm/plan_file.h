// The text file of chosen GEMM algorithms.
//
//   scalekeeper matmul plans 1
//   chip NVIDIA H200
//   multiprocessors 132
//   cublaslt 130100
//   plan <16 key fields, decimal> : <8 words of the algorithm, hexadecimal>
//   ...
//   end <number of plans> <64-bit FNV-1a of all lines before, hexadecimal>
//
// An algorithm is cuBLASLt's opaque value, which its manual allows to store for
// the same version; hence the header.
#ifndef SCALEKEEPER_GEMM_PLAN_FILE_H_
#define SCALEKEEPER_GEMM_PLAN_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gemm/matmul_plan_key.h"

namespace scalekeeper {

// What an algorithm was chosen for.
struct ChipIdentity {
  std::string name;
  int multiprocessors = 0;
  size_t cublaslt_version = 0;
};

struct PlanRecord {
  using Algorithm = std::array<uint64_t, 8>;

  MatmulPlanKey key;
  Algorithm algorithm = {};
};

// Records in an order of their own, so that equal sets give equal text.
std::string PrintPlans(const ChipIdentity& chip,
                       std::vector<PlanRecord> records);

// The records of a text made for `chip`. InvalidArgument naming the line and
// what is wrong with it when the text is damaged; FailedPrecondition naming
// both sides when it was made for another chip, cuBLASLt or version of the
// format.
absl::StatusOr<std::vector<PlanRecord>> ParsePlans(absl::string_view text,
                                                   const ChipIdentity& chip);

// The file appears whole or not at all. Unavailable / NotFound with the path
// and the system's reason.
absl::Status WritePlanFile(const std::string& path, absl::string_view text);
absl::StatusOr<std::string> ReadPlanFile(const std::string& path);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_PLAN_FILE_H_
