// A replay's results as text: tables for people, CSV and JSON for programs.
#ifndef SCALEKEEPER_REPLAY_SUMMARY_H_
#define SCALEKEEPER_REPLAY_SUMMARY_H_

#include <cstddef>
#include <string>

#include "replay/replay.h"

namespace scalekeeper {

// Recipes by rank, events, the worst quantizers (at most `slots`) of the best
// recipe, and those whose ranks differ most.
std::string SummaryTable(const ReplayResult& result, size_t slots);

// One row per recipe and quantizer, and one per recipe with quantizer "total".
// Shares are 0..1; cells are empty where nothing can be judged.
std::string SummaryCsv(const ReplayResult& result);

// The same and what the table has besides, as one JSON object.
std::string SummaryJson(const ReplayResult& result);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_SUMMARY_H_
