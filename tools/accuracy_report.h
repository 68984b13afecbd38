// Writes what MeasureAccuracy found, for people, documents and programs.
//
// Figures, per copy of a tensor (CopyAccuracy says what they are): SQNR in dB,
// the largest error as a fraction of the tensor's largest magnitude, the
// largest relative error, and the percentages that underflowed and saturated.
#ifndef SCALEKEEPER_TOOLS_ACCURACY_REPORT_H_
#define SCALEKEEPER_TOOLS_ACCURACY_REPORT_H_

#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "tools/accuracy.h"

namespace scalekeeper {

// A line per recipe, tensor and copy, in columns.
std::string AccuracyTable(absl::Span<const Accuracy> results);

// A Markdown table per figure: a row per recipe, a column per tensor.
// `results` are those of the same `tensors` (> 0) tensors under one recipe
// after the other. A cell is "row-wise / column-wise", or one number where both
// copies read back the same, with "-" for one that no GEMM of the recipe reads.
// SQNR of a copy that lost nothing is "exact".
std::string AccuracyMarkdown(absl::Span<const Accuracy> results,
                             size_t tensors);

// An array of objects, every figure with nine digits; fractions, not
// percentages. A copy that is not made is null.
std::string AccuracyJson(absl::Span<const Accuracy> results);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_ACCURACY_REPORT_H_
