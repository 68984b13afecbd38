// The pictures of the HTML report.
//
// Shapes are SVG, stretched to the width at hand; text is HTML beside them, so
// that it keeps its size.
#ifndef SCALEKEEPER_REPLAY_REPORT_PLOTS_H_
#define SCALEKEEPER_REPLAY_REPORT_PLOTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "replay/replay.h"

namespace scalekeeper {

std::string EscapeHtml(absl::string_view text);

// The event that plots name: the one with the most columns, or the first in
// which the loss jumped; null without events.
const TraceEvent* MainEvent(const ReplayResult& result);

// The loss over the steps; empty when the trace has none.
std::string LossPlot(const ReplayResult& result);

// log2 headroom of the columns (in that order) over the steps.
std::string HeatMap(const ReplayResult& result, const RecipeResult& recipe,
                    const std::vector<size_t>& columns);
std::string HeatLegend();

// Amax of a column, and for each recipe the largest value that its scale can
// hold.
std::string CurvePlot(const ReplayResult& result,
                      const std::vector<size_t>& recipes, size_t column);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_REPORT_PLOTS_H_
