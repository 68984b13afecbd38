// A replay's results as one HTML file: text, tables and inline SVG, no network,
// no script.
//
// It says which recipe loses least and why, shows the events, the ranking, the
// headroom of every quantizer over the steps, amax and ceiling of the worst
// quantizers, and where ranks differ. It adapts to the window's width and to
// the reader's preference for light or dark.
//
// Needs ReplayOptions::bins.
#ifndef SCALEKEEPER_REPLAY_REPORT_H_
#define SCALEKEEPER_REPLAY_REPORT_H_

#include <string>

#include "replay/replay.h"

namespace scalekeeper {

// `source`: what the reader is told was replayed, as "rank0.csv, rank1.csv".
std::string HtmlReport(const ReplayResult& result, const std::string& source);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_REPORT_H_
