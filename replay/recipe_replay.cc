#include "replay/recipe_replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/strip.h"
#include "amax/update.h"
#include "base/buffer.h"
#include "base/status_macros.h"
#include "numerics/amax.h"
#include "numerics/format.h"
#include "numerics/scale.h"
#include "numerics/statistics.h"

namespace scalekeeper {
namespace {

// Steps in a row that fit make a recovery.
constexpr int32_t kGoodSteps = 8;

// The phase that is active at `step`: the last whose from_step <= step.
int PhaseAt(const std::vector<int64_t>& from_steps, int64_t step) {
  const auto after =
      std::upper_bound(from_steps.begin(), from_steps.end(), step);
  return static_cast<int>(after - from_steps.begin()) - 1;
}

bool Observed(uint32_t own) { return own != kNotObserved; }
// Observed, finite and > 0.
bool Usable(uint32_t own) {
  return own != 0 && own != kNotObserved && !IsNonFiniteAmax(own);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecipeReplay>> RecipeReplay::Create(
    const Recipe& recipe, const TraceHeader& header, int64_t first_step,
    const Options& options) {
  SlotTable table;
  std::map<std::string, std::array<int32_t, 3>> modules;
  std::vector<int32_t> slots;
  for (const TraceColumn& column : header.columns) {
    if (!IsLayerColumn(column)) {
      absl::string_view name = column.name;
      absl::ConsumePrefix(&name, column.module + "/");
      SK_ASSIGN_OR_RETURN(const int32_t slot,
                          table.AddSlot(column.module, name, column.role));
      slots.push_back(slot);
      continue;
    }
    auto module = modules.find(column.module);
    if (module == modules.end()) {
      SK_ASSIGN_OR_RETURN(const auto added, table.AddModule(column.module));
      module = modules.emplace(column.module, added).first;
    }
    slots.push_back(module->second[static_cast<size_t>(column.role)]);
  }
  SK_RETURN_IF_ERROR(table.Resolve(recipe));
  std::unique_ptr<RecipeReplay> replay(new RecipeReplay(std::move(table)));
  replay->phase_from_steps_.assign(recipe.phase_from_steps().begin(),
                                   recipe.phase_from_steps().end());
  SK_ASSIGN_OR_RETURN(
      Arena arena,
      Arena::Create(HostAllocator(), PhaseSwitcher::LayoutOf(replay->table_)));
  replay->arena_ = std::make_unique<Arena>(std::move(arena));
  const int phase = PhaseAt(replay->phase_from_steps_, first_step);
  replay->phases_ = PhaseSwitcher(&replay->table_, replay->arena_.get(), phase);
  const size_t count = header.columns.size();
  replay->keep_scales_ = options.keep_scales;
  replay->update_ = recipe.update();
  replay->pending_.resize(count);
  replay->held_.resize(count);
  replay->statistics_.resize(count);
  if (options.hold_out) replay->held_out_.resize(count);
  replay->judged_.resize(count);
  replay->recovery_.resize(count);
  replay->slot_of_column_ = slots;
  if (options.bins > 0) {
    replay->headroom_ = StepBins(count, options.bins);
    replay->scale_bins_ = StepBins(count, options.bins);
  }
  for (size_t c = 0; c < count; ++c) {
    Column column;
    column.column = static_cast<uint32_t>(c);
    column.slot = slots[c];
    column.arena = replay->table_.arena_index(slots[c]);
    replay->columns_.push_back(column);
  }
  std::stable_sort(replay->columns_.begin(), replay->columns_.end(),
                   [](const Column& a, const Column& b) {
                     return static_cast<uint32_t>(a.arena) <
                            static_cast<uint32_t>(b.arena);
                   });
  replay->EnterPhase(phase);
  return replay;
}

const Policy& RecipeReplay::policy(size_t column) const {
  return table_.policies(slot_of_column_[column])[static_cast<size_t>(phase_)];
}

void RecipeReplay::EnterPhase(int phase) {
  if (phase == phase_) return;
  phase_ = phase;
  phases_.SwitchTo(phase);
  phases_.Commit();
  for (Column& column : columns_) {
    const Policy& policy =
        table_.policies(column.slot)[static_cast<size_t>(phase)];
    column.scaling = policy.scaling;
    column.format = policy.format;
    column.format_max = FormatMax(policy.format);
    column.bound = SaturationBound(column.format_max);
    column.margin = policy.delayed.margin;
    column.reduced = table_.group(phase, column.slot) < table_.groups().size();
    column.amax_epsilon = policy.current.amax_epsilon;
    column.power_2_scale = policy.current.power_2_scale;
    column.amax_group = !policy.current.amax_group.empty();
    if (policy.scaling == Scaling::kDelayed ||
        policy.scaling == Scaling::kCurrent) {
      judged_[column.column] = 1;
    }
  }
}

void RecipeReplay::BeginBlock(const TraceBlock& block) {
  EnterPhase(PhaseAt(phase_from_steps_, block.steps[0]));
  const size_t rows = block.rows_before + block.rows;
  headroom_.Reserve(rows);
  scale_bins_.Reserve(rows);
  if (keep_scales_) scales_.resize(block.rows * block.columns);
  size_t events = block.events_before;
  for (const uint8_t starts : block.starts_event) events += starts;
  while (recoveries_.size() < std::min(events, kTrackedEvents)) {
    recoveries_.emplace_back(columns_.size(), kNotJudged);
  }
}

void RecipeReplay::Run(const TraceBlock& block, size_t chunk) {
  const size_t begin = chunk * kChunkColumns;
  const size_t end = std::min(begin + kChunkColumns, columns_.size());
  size_t events = block.events_before;
  for (size_t row = 0; row < block.rows; ++row) {
    if (block.starts_event[row] != 0) {
      if (events < kTrackedEvents) {
        for (size_t i = begin; i < end; ++i) {
          StartRecovery(columns_[i], block.rows_before + row, events);
        }
      }
      ++events;
    }
    for (size_t i = begin; i < end; ++i) RunCell(block, columns_[i], row);
  }
}

// NaN where the rank has no scale.
float RecipeReplay::RankScale(const TraceBlock& block, const Column& column,
                              size_t row, size_t rank) const {
  const uint32_t own = block.own_at(rank, row, column.column);
  if (column.scaling == Scaling::kDelayed) {
    const ArenaView& view = arena_->view();
    if (view.measure[column.arena] != 0 && Usable(own)) {
      return ScaleFromAmax(FloatFromBits(own), column.format_max,
                           column.margin);
    }
    return view.scale[column.arena];
  }
  if (column.scaling == Scaling::kCurrent && Observed(own)) {
    CurrentScaleOptions options;
    options.format_max = column.format_max;
    options.power_2_scale = column.power_2_scale;
    options.amax_epsilon = column.amax_epsilon;
    return CurrentScaleFromAmax(
        column.amax_group ? block.reduced[block.at(row, column.column)] : own,
        options);
  }
  return std::numeric_limits<float>::quiet_NaN();
}

void RecipeReplay::CountRanks(const TraceBlock& block, const Column& column,
                              size_t row, SlotStatistics* statistics,
                              bool* saturated) const {
  const bool alone = column.scaling == Scaling::kDelayed && !column.reduced;
  const size_t ranks = alone ? 1 : block.ranks;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const uint32_t own = block.own_at(rank, row, column.column);
    if (!Usable(own)) continue;
    ++statistics->tensors;
    const float scale = RankScale(block, column, row, rank);
    if (Saturates(FloatFromBits(own), scale, column.format_max)) {
      ++statistics->saturated_tensors;
      *saturated = true;
    }
  }
}

void RecipeReplay::CountHistograms(const TraceBlock& block,
                                   const Column& column, size_t row,
                                   SlotStatistics* statistics) const {
  const std::vector<RankHistogram>& all = block.histograms[row];
  auto it = std::lower_bound(
      all.begin(), all.end(), column.column,
      [](const RankHistogram& a, uint32_t c) { return a.entry.column < c; });
  const bool alone = column.scaling == Scaling::kDelayed && !column.reduced;
  for (; it != all.end() && it->entry.column == column.column; ++it) {
    const uint32_t own = block.own_at(it->rank, row, column.column);
    if ((alone && it->rank != 0) || !Usable(own)) continue;
    const float scale = RankScale(block, column, row, it->rank);
    const double vanish = UnderflowThreshold(column.format, scale);
    const double clip =
        static_cast<double>(column.bound) / static_cast<double>(scale);
    const double amax = static_cast<double>(FloatFromBits(own));
    const Log2Histogram& histogram = it->entry.histogram;
    // The first bucket holds the zeros.
    for (size_t i = 1; i < histogram.counts.size(); ++i) {
      if (histogram.counts[i] == 0) continue;
      const double count = static_cast<double>(histogram.counts[i]);
      const double low =
          std::ldexp(1.0, histogram.first_exponent + static_cast<int>(i));
      // No value lies above the amax.
      const double high = amax > low ? std::min(2 * low, amax) : 2 * low;
      statistics->elements += count;
      statistics->underflow += count * SpreadBelow(low, high, vanish);
      statistics->saturated_elements +=
          count * (1 - SpreadBelow(low, high, clip));
    }
  }
}

void RecipeReplay::StartRecovery(const Column& column, size_t row,
                                 size_t event) {
  Recovery& recovery = recovery_[column.column];
  const SlotStatistics& statistics = statistics_[column.column];
  const double median = statistics.staleness.Quantile(0.5);
  recovery = Recovery();
  if (median <= 0) return;  // nothing was delayed so far
  recovery.start = static_cast<int64_t>(row);
  recovery.event = event;
  recovery.least_staleness = static_cast<float>(median / 4);
  recoveries_[event][column.column] = kNotRecovered;
}

void RecipeReplay::FollowRecovery(const Column& column, size_t row,
                                  bool saturated, float staleness) {
  Recovery& recovery = recovery_[column.column];
  const bool good = !saturated && staleness >= recovery.least_staleness;
  recovery.good = good ? recovery.good + 1 : 0;
  if (recovery.good < kGoodSteps) return;
  recoveries_[recovery.event][column.column] = static_cast<int32_t>(
      static_cast<int64_t>(row) - recovery.start - kGoodSteps + 1);
  recovery.start = -1;
}

void RecipeReplay::NoteBins(const TraceBlock& block, const Column& column,
                            size_t row, bool one_scale) {
  const size_t c = column.column;
  const size_t at = block.rows_before + row;
  const bool alone = column.scaling == Scaling::kDelayed && !column.reduced;
  // Ranks with one scale have the least headroom where the amax is largest.
  const size_t ranks = alone || one_scale ? 1 : block.ranks;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const uint32_t amax = one_scale && !alone ? block.reduced[block.at(row, c)]
                                              : block.own_at(rank, row, c);
    if (!Usable(amax)) continue;
    const float scale = RankScale(block, column, row, rank);
    scale_bins_.Note(c, at, std::log2(scale));
    headroom_.Note(c, at,
                   std::log2(column.format_max) -
                       std::log2(FloatFromBits(amax)) - std::log2(scale));
  }
}

uint32_t RecipeReplay::Due(size_t column, int64_t step, uint32_t reduced) {
  uint32_t due = 0;
  if (update_.staleness != 0) std::swap(due, held_[column]);
  uint32_t& pending = pending_[column];
  pending = MaxBits(pending, reduced);
  if ((step + 1) % update_.interval == 0) {
    std::swap(update_.staleness != 0 ? held_[column] : due, pending);
  }
  return due;
}

void RecipeReplay::RunCell(const TraceBlock& block, const Column& column,
                           size_t row) {
  const size_t c = column.column;
  const size_t cell = block.at(row, c);
  SlotStatistics& statistics =
      block.held_out[row] != 0 ? held_out_[c] : statistics_[c];
  const ArenaView& view = arena_->view();
  const bool delayed = column.scaling == Scaling::kDelayed;
  uint32_t reduced = block.reduced[cell];
  if (IsNonFiniteAmax(reduced)) ++statistics.non_finite_steps;
  if (delayed && !column.reduced) {
    const uint32_t own = block.own_at(0, row, c);
    reduced = Observed(own) ? own : 0;
  }
  if (keep_scales_) scales_[cell] = RankScale(block, column, row, 0);
  if (delayed || column.scaling == Scaling::kCurrent) {
    bool saturated = false;
    const bool one_scale = delayed && view.measure[column.arena] == 0;
    const bool usable = Usable(reduced);
    const float amax = usable ? FloatFromBits(reduced) : 0;
    if (one_scale && column.reduced &&
        amax * view.scale[column.arena] <= column.bound) {
      // No rank's amax is larger.
      statistics.tensors += block.finite[cell];
    } else {
      CountRanks(block, column, row, &statistics, &saturated);
    }
    if (usable) {
      ++statistics.steps;
      statistics.saturated_steps += saturated ? 1 : 0;
      if (one_scale) {
        const float staleness = Staleness(amax, view.scale_inv[column.arena],
                                          column.format_max, column.margin);
        statistics.staleness.Count(staleness);
        statistics.max_staleness =
            std::max(statistics.max_staleness, staleness);
        statistics.min_staleness =
            std::min(statistics.min_staleness, staleness);
        if (recovery_[c].start >= 0) {
          FollowRecovery(column, block.rows_before + row, saturated, staleness);
        }
      }
      if (headroom_.enabled()) NoteBins(block, column, row, one_scale);
    }
    if (!block.histograms[row].empty()) {
      CountHistograms(block, column, row, &statistics);
    }
  }
  if (column.arena < 0) return;
  // The library's update of one slot.
  reduced = Due(c, block.steps[row], reduced);
  const auto slot = static_cast<uint32_t>(column.arena);
  SlotWork work;
  work.descriptor = view.descriptors[slot];
  LoadSlot(view, slot, &work);
  PlanSlot(view, &work);
  const SlotDecision decision = DecideSlot(work, reduced, /*skip=*/false);
  if (BitsFromFloat(decision.scale) != BitsFromFloat(work.scale)) {
    ++statistics.scale_changes;
  }
  StoreSlot(view, slot, work, decision, reduced, /*sequence=*/0);
}

}  // namespace scalekeeper
