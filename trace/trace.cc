#include "trace/trace.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace scalekeeper {

bool IsLayerColumn(const TraceColumn& column) {
  return column.name == absl::StrCat(column.module, "/", Name(column.role));
}

TraceColumn LayerColumn(std::string module, Role role) {
  std::string name = absl::StrCat(module, "/", Name(role));
  return {std::move(name), std::move(module), role};
}

}  // namespace scalekeeper
