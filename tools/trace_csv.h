// Recorded amaxes of one rank, as CSV: what `scalekeeper simulate` replays.
//
//   step,loss,layers.0.qkv/input,layers.0.qkv/weight,...
//   0,4.02,1.5,0.0441941731,...
//
// The `loss` column may be absent. The others are <module>/<role>, role one of
// input, weight, grad. A cell is that rank's amax of that step, before any
// reduction: a float32 >= 0, `nan` or `inf`; empty when the tensor was not
// observed. Steps are integers >= 0.
#ifndef SCALEKEEPER_TOOLS_TRACE_CSV_H_
#define SCALEKEEPER_TOOLS_TRACE_CSV_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "recipe/policy.h"

namespace scalekeeper {

struct TraceColumn {
  std::string name;    // "layers.0.qkv/input"
  std::string module;  // "layers.0.qkv"
  Role role = Role::kInput;
};

// What stands in a cell of a tensor that was not observed; no amax has it.
inline constexpr uint32_t kNotObserved = 0xFFFFFFFFu;

struct Trace {
  std::vector<TraceColumn> columns;
  std::vector<int64_t> steps;
  // Amax bits, row-major steps.size() x columns.size(), or kNotObserved.
  std::vector<uint32_t> amax_bits;

  uint32_t at(size_t row, size_t column) const {
    return amax_bits[row * columns.size() + column];
  }
};

// InvalidArgument with `source:line: column ...` on the first fault: a ragged
// row, an unknown or repeated column, a negative amax, one that is no float32.
absl::StatusOr<Trace> ParseTraceCsv(absl::string_view text,
                                    absl::string_view source);

// One trace per rank, in order; NotFound when a file cannot be read. The ranks
// must have the same columns and steps.
absl::StatusOr<std::vector<Trace>> ReadTraceCsvs(
    const std::vector<std::string>& paths);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_TRACE_CSV_H_
