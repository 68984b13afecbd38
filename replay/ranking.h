// Ranking: which recipe loses least of a trace, and why; in words.
#ifndef SCALEKEEPER_REPLAY_RANKING_H_
#define SCALEKEEPER_REPLAY_RANKING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "replay/replay.h"

namespace scalekeeper {

// Indices of result.recipes, best first: least loss (SlotStatistics::loss),
// then the staleness nearer to 1. Recipes of which a trace can judge nothing
// come last.
std::vector<size_t> RankRecipes(const ReplayResult& result);

// "X loses least: ...": names the winner, what it loses, and what the next and
// the worst lose more, with the slots and the event where most of it is.
std::string ExplainRanking(const ReplayResult& result);

// Columns of a recipe, most lost first; those that lose nothing come last, in
// the trace's order.
std::vector<size_t> WorstColumns(const RecipeResult& recipe);

// "steps 600-612: the loss jumps from 0.97 to 6.52; 32 of 99 amaxes move more
// than 16-fold, layers.3.fc2/grad farthest (to 1/4520)".
std::string DescribeEvent(const ReplayResult& result, const TraceEvent& event);

// "0.12%", with as many digits as it takes to see that it is not 0.
std::string Percent(double share);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_RANKING_H_
