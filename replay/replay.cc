#include "replay/replay.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "numerics/amax.h"
#include "replay/trace_block.h"
#include "replay/worker_pool.h"

namespace scalekeeper {
namespace {

// Memory for the extremes of one recipe, about; bounds of bins per column.
constexpr size_t kBinBytes = size_t{48} << 20;
constexpr size_t kMaxBins = 512;
constexpr size_t kMinBins = 32;

// Replays need the first block's step; they are made when it is there.
class Replayer {
 public:
  Replayer(RankedTrace* trace, const std::vector<LabeledRecipe>& recipes,
           const ReplayOptions& options)
      : trace_(trace),
        recipes_(recipes),
        options_(options),
        columns_(trace->header().columns.size()),
        pool_(options.threads > 0
                  ? options.threads
                  : std::max(1, static_cast<int>(
                                    std::thread::hardware_concurrency()))),
        detector_(columns_) {
    result_.header = trace->header();
    result_.ranks = trace->ranks();
    result_.rank_shares = RankShares(columns_, trace->ranks());
    if (options.bins) {
      const size_t cells = columns_ * (2 * recipes.size() + 1);
      bins_ =
          std::clamp(kBinBytes / sizeof(Extremes) / cells, kMinBins, kMaxBins) /
          2 * 2;
      result_.amax = StepBins(columns_, bins_);
      result_.loss = StepBins(1, bins_);
    }
  }

  absl::StatusOr<ReplayResult> Run() {
    BlockReader reader(trace_, [this](int64_t a, int64_t b) {
      return std::all_of(recipes_.begin(), recipes_.end(),
                         [&](const LabeledRecipe& labeled) {
                           return labeled.recipe.ActivePhase(a) ==
                                  labeled.recipe.ActivePhase(b);
                         });
    });
    TraceBlock block;
    for (;;) {
      SK_ASSIGN_OR_RETURN(const bool more, reader.Next(&block));
      if (!more) break;
      SK_RETURN_IF_ERROR(RunBlock(&block));
    }
    detector_.Finish();
    result_.events = detector_.events();
    result_.warnings = trace_->warnings();
    for (size_t r = 0; r < recipes_.size(); ++r) Collect(r);
    return std::move(result_);
  }

 private:
  absl::Status RunBlock(TraceBlock* block) {
    if (replays_.empty()) {
      result_.first_step = block->steps[0];
      SK_RETURN_IF_ERROR(CreateReplays());
    }
    result_.steps += static_cast<int64_t>(block->rows);
    result_.last_step = block->steps.back();
    if (options_.held_out) {
      for (size_t row = 0; row < block->rows; ++row) {
        block->held_out[row] =
            options_.held_out(block->rows_before + row) ? 1 : 0;
      }
    }
    // What only the trace knows runs beside the recipes' chunks, but for the
    // events, which they need.
    for (size_t row = 0; row < block->rows; ++row) {
      block->starts_event[row] =
          detector_.Step(block->steps[row], block->losses[row],
                         block->reduced.data() + block->at(row, 0));
    }
    const size_t chunks = replays_[0]->chunks();
    for (auto& replay : replays_) replay->BeginBlock(*block);
    pool_.ParallelFor(1 + chunks * replays_.size(), [&](size_t i) {
      if (i == 0) {
        Summarize(*block);
      } else {
        replays_[(i - 1) / chunks]->Run(*block, (i - 1) % chunks);
      }
    });
    if (options_.scales) {
      SK_RETURN_IF_ERROR(options_.scales(*block, replays_[0]->scales()));
    }
    if (options_.progress) {
      options_.progress(block->rows_before + block->rows);
    }
    return absl::OkStatus();
  }

  absl::Status CreateReplays() {
    for (size_t r = 0; r < recipes_.size(); ++r) {
      RecipeReplay::Options options;
      options.bins = bins_;
      options.hold_out = options_.held_out != nullptr;
      options.keep_scales = r == 0 && options_.scales != nullptr;
      SK_ASSIGN_OR_RETURN(
          std::unique_ptr<RecipeReplay> replay,
          RecipeReplay::Create(recipes_[r].recipe, result_.header,
                               result_.first_step, options));
      replays_.push_back(std::move(replay));
    }
    return absl::OkStatus();
  }

  void Summarize(const TraceBlock& block) {
    result_.rank_shares.Add(block);
    for (const auto& histograms : block.histograms) {
      result_.histograms += static_cast<int64_t>(histograms.size());
    }
    for (size_t rank = 0; rank < block.ranks; ++rank) {
      for (size_t row = 0; row < block.rows; ++row) {
        for (size_t c = 0; c < columns_; ++c) {
          const uint32_t own = block.own_at(rank, row, c);
          result_.non_finite +=
              own != kNotObserved && IsNonFiniteAmax(own) ? 1 : 0;
        }
      }
    }
    if (!options_.bins) return;
    const size_t rows = block.rows_before + block.rows;
    result_.amax.Reserve(rows);
    result_.loss.Reserve(rows);
    // A bin's first step stays that of the even ones of two merged bins.
    while (rows_per_bin_ < result_.amax.rows_per_bin()) {
      for (size_t i = 0; 2 * i < result_.bin_steps.size(); ++i) {
        result_.bin_steps[i] = result_.bin_steps[2 * i];
      }
      result_.bin_steps.resize((result_.bin_steps.size() + 1) / 2);
      rows_per_bin_ *= 2;
    }
    for (size_t row = 0; row < block.rows; ++row) {
      const size_t at = block.rows_before + row;
      if (at / rows_per_bin_ == result_.bin_steps.size()) {
        result_.bin_steps.push_back(block.steps[row]);
      }
      if (block.losses[row] && std::isfinite(*block.losses[row])) {
        result_.loss.Note(0, at, static_cast<float>(*block.losses[row]));
      }
      for (size_t c = 0; c < columns_; ++c) {
        const uint32_t bits = block.reduced[block.at(row, c)];
        if (bits == 0 || IsNonFiniteAmax(bits)) continue;
        result_.amax.Note(c, at, std::log2(FloatFromBits(bits)));
      }
    }
  }

  void Collect(size_t r) {
    const RecipeReplay& replay = *replays_[r];
    RecipeResult recipe{recipes_[r].label,
                        recipes_[r].recipe,
                        replay.statistics(),
                        {},
                        {},
                        {},
                        {},
                        {},
                        replay.headroom(),
                        replay.scale_bins()};
    for (size_t c = 0; c < columns_; ++c) {
      recipe.policies.push_back(replay.policy(c));
      recipe.judged.push_back(replay.judged(c));
      recipe.total.Add(recipe.slots[c]);
    }
    for (const SlotStatistics& slot : replay.held_out()) {
      recipe.held_out.Add(slot);
    }
    for (const std::vector<int32_t>& steps : replay.recoveries()) {
      EventRecovery recovery;
      std::vector<int32_t> recovered;
      for (size_t c = 0; c < columns_; ++c) {
        if (steps[c] == RecipeReplay::kNotJudged) continue;
        ++recovery.judged;
        if (steps[c] == RecipeReplay::kNotRecovered) {
          ++recovery.not_recovered;
          continue;
        }
        if (recovered.empty() || steps[c] > recovery.max_steps) {
          recovery.max_steps = steps[c];
          recovery.slowest = c;
        }
        recovered.push_back(steps[c]);
      }
      if (!recovered.empty()) {
        std::sort(recovered.begin(), recovered.end());
        recovery.median_steps = recovered[(recovered.size() - 1) / 2];
      }
      recipe.recoveries.push_back(recovery);
    }
    result_.recipes.push_back(std::move(recipe));
  }

  RankedTrace* trace_;
  const std::vector<LabeledRecipe>& recipes_;
  const ReplayOptions& options_;
  const size_t columns_;
  size_t bins_ = 0;
  size_t rows_per_bin_ = 1;
  WorkerPool pool_;
  EventDetector detector_;
  std::vector<std::unique_ptr<RecipeReplay>> replays_;
  ReplayResult result_;
};

}  // namespace

size_t RecipeResult::judged_count() const {
  return static_cast<size_t>(std::count(judged.begin(), judged.end(), true));
}

absl::StatusOr<ReplayResult> Replay(RankedTrace* trace,
                                    const std::vector<LabeledRecipe>& recipes,
                                    const ReplayOptions& options) {
  return Replayer(trace, recipes, options).Run();
}

}  // namespace scalekeeper
