// A line of a CSV without quotes.
#ifndef SCALEKEEPER_TRACE_CSV_CELLS_H_
#define SCALEKEEPER_TRACE_CSV_CELLS_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"

namespace scalekeeper {

// At least one cell. Keeps the capacity of `cells`.
inline void SplitCells(absl::string_view line,
                       std::vector<absl::string_view>* cells) {
  cells->clear();
  for (size_t comma = 0; comma != absl::string_view::npos;) {
    comma = line.find(',');
    cells->push_back(line.substr(0, comma));
    if (comma != absl::string_view::npos) line.remove_prefix(comma + 1);
  }
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_CSV_CELLS_H_
