#include "examples/train_digits/trainer.h"

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "amax/recipe_state.h"
#include "base/status_macros.h"
#include "examples/train_digits/mlp.h"
#include "examples/train_digits/random.h"
#include "examples/train_digits/rank_group.h"
#include "examples/train_digits/thread_group.h"

namespace scalekeeper {
namespace {

// Adam (Kingma and Ba, 2015), on float32 master parameters.
class Adam {
 public:
  Adam(size_t size, float learning_rate)
      : learning_rate_(learning_rate), m_(size), v_(size) {}

  void Step(const std::vector<float>& gradients,
            std::vector<float>* parameters) {
    ++steps_;
    const float m_correction = 1.0f - std::pow(kBeta1, steps_);
    const float v_correction = 1.0f - std::pow(kBeta2, steps_);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const float g = gradients[i];
      m_[i] = kBeta1 * m_[i] + (1.0f - kBeta1) * g;
      v_[i] = kBeta2 * v_[i] + (1.0f - kBeta2) * g * g;
      (*parameters)[i] -= learning_rate_ * (m_[i] / m_correction) /
                          (std::sqrt(v_[i] / v_correction) + 1e-8f);
    }
  }

 private:
  static constexpr float kBeta1 = 0.9f;
  static constexpr float kBeta2 = 0.999f;
  float learning_rate_;
  float steps_ = 0;
  std::vector<float> m_;
  std::vector<float> v_;
};

// Deals the shuffled training rows to the ranks, the same on each of them.
class Batches {
 public:
  Batches(const DigitSet* set, const TrainOptions& options)
      : set_(set),
        options_(options),
        random_(options.seed + 1),
        order_(static_cast<size_t>(set->size())) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }

  int64_t steps_per_epoch() const {
    return set_->size() / (options_.batch * options_.ranks);
  }

  DigitSet Get(int64_t step, int rank) {
    const int64_t in_epoch = step % steps_per_epoch();
    if (in_epoch == 0) random_.Shuffle(&order_);
    DigitSet batch;
    const int64_t first = (in_epoch * options_.ranks + rank) * options_.batch;
    for (int64_t i = first; i < first + options_.batch; ++i) {
      const int64_t row = order_[static_cast<size_t>(i)];
      const auto pixels = set_->pixels.begin() + row * kPixels;
      batch.pixels.insert(batch.pixels.end(), pixels, pixels + kPixels);
      batch.labels.push_back(set_->labels[static_cast<size_t>(row)]);
    }
    return batch;
  }

 private:
  const DigitSet* set_;
  TrainOptions options_;
  Random random_;
  std::vector<int64_t> order_;
};

struct RankResult {
  int64_t correct = 0;
  float loss = 0;
  std::vector<Linear::Report> quantizers;
  std::vector<float> scales;
  std::vector<float> parameters;
};

// Whatever groups the recipe names for the layers, they are all ranks.
std::map<std::string, Communicator*> BindGroups(const ResolvedModules& resolved,
                                                Communicator* communicator) {
  std::map<std::string, Communicator*> groups;
  const size_t modules = Mlp::ModuleNames().size();
  for (int phase = 0; phase < resolved.phases(); ++phase) {
    for (size_t module = 0; module < modules; ++module) {
      const AmaxReductionPolicy& reduction =
          resolved.at(phase, module).amax_reduction;
      if (reduction.enabled) groups[reduction.group] = communicator;
      for (const Role role : kRoles) {
        const std::string& group =
            AmaxGroupOf(resolved.at(phase, module).policy(role));
        if (!group.empty()) groups[group] = communicator;
      }
    }
  }
  return groups;
}

// Per module, whether its amaxes are reduced in the phase.
std::vector<bool> Reduced(const ResolvedModules& resolved, int phase) {
  std::vector<bool> reduced(Mlp::ModuleNames().size());
  for (size_t module = 0; module < reduced.size(); ++module) {
    reduced[module] = resolved.at(phase, module).amax_reduction.enabled;
  }
  return reduced;
}

absl::StatusOr<RankResult> TrainRank(const Recipe& recipe, const Digits& digits,
                                     const TrainOptions& options, int rank,
                                     RankGroup* group, ThreadGroup* ranks,
                                     const Progress& progress) {
  SK_ASSIGN_OR_RETURN(const ResolvedModules resolved,
                      recipe.Resolve(Mlp::ModuleNames()));
  SK_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                      group->Join(rank));
  RecipeStateOptions state_options;
  if (options.device == DeviceKind::kCuda) {
    state_options.device = Device::Cuda(rank);
  }
  state_options.groups = BindGroups(resolved, communicator.get());
  SK_ASSIGN_OR_RETURN(std::unique_ptr<RecipeState> state,
                      RecipeState::Create(recipe, state_options));
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Mlp> mlp,
                      Mlp::Create(state.get(), options.seed));
  SK_RETURN_IF_ERROR(state->Freeze());
  SK_RETURN_IF_ERROR(mlp->Prepare());

  Adam adam(mlp->parameters().size(), options.learning_rate);
  Batches batches(&digits.train, options);
  const int64_t steps = options.epochs * batches.steps_per_epoch();
  RankResult result;
  for (int64_t step = 0; step < steps; ++step) {
    SK_RETURN_IF_ERROR(state->SetStep(step));
    SK_ASSIGN_OR_RETURN(float loss,
                        mlp->ForwardBackward(batches.Get(step, rank)));
    std::vector<float> shared = mlp->gradients();
    shared.push_back(loss);
    SK_RETURN_IF_ERROR(ranks->Average(rank, &shared));
    result.loss = shared.back();
    shared.pop_back();
    // Reported before EndStep: under the scales that this step used.
    if (rank == 0 && step + 1 == steps) {
      SK_ASSIGN_OR_RETURN(result.quantizers, mlp->Reports());
    }
    adam.Step(shared, &mlp->parameters());
    SK_RETURN_IF_ERROR(state->EndStep(Stream{}));
    if (rank == 0 && progress) progress(step + 1, steps, result.loss);
  }
  SK_RETURN_IF_ERROR(state->Check(Stream{}));
  SK_ASSIGN_OR_RETURN(result.scales, mlp->SharedScales(Reduced(
                                         resolved, state->active_phase())));
  SK_ASSIGN_OR_RETURN(result.correct, mlp->CountCorrect(digits.test));
  result.parameters = mlp->parameters();
  return result;
}

}  // namespace

absl::Status CheckRecipe(const Recipe& recipe) {
  return recipe.Resolve(Mlp::ModuleNames()).status();
}

absl::StatusOr<TrainResult> Train(const Recipe& recipe, const Digits& digits,
                                  const TrainOptions& options,
                                  const Progress& progress) {
  if (options.ranks < 1 || options.batch < 1 ||
      options.batch > digits.train.size() / options.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks x batch: got ", options.ranks, " x ", options.batch,
                     ", want at least 1 each and together at most ",
                     digits.train.size(), " (the training rows)"));
  }
  constexpr int64_t kMaxEpochs = 100000;
  if (options.epochs < 1 || options.epochs > kMaxEpochs) {
    return absl::InvalidArgumentError(
        absl::StrCat("epochs: got ", options.epochs, ", want 1..", kMaxEpochs));
  }
  const size_t ranks = static_cast<size_t>(options.ranks);
  SK_ASSIGN_OR_RETURN(const std::unique_ptr<RankGroup> group,
                      RankGroup::Create(options.device, options.ranks));
  ThreadGroup thread_group(options.ranks);
  std::vector<absl::StatusOr<RankResult>> results(
      ranks, absl::UnknownError("did not run"));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = TrainRank(recipe, digits, options, static_cast<int>(rank),
                                group.get(), &thread_group, progress);
      if (!results[rank].ok()) thread_group.Abort();
    });
  }
  for (std::thread& thread : threads) thread.join();

  TrainResult total;
  absl::Status failure;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const absl::Status& status = results[rank].status();
    if (status.ok()) {
      total.scales.push_back(std::move(results[rank]->scales));
      total.parameters.push_back(std::move(results[rank]->parameters));
    } else if (failure.ok() || absl::IsAborted(failure)) {
      failure = absl::Status(
          status.code(), absl::StrCat("rank ", rank, ": ", status.message()));
    }
  }
  SK_RETURN_IF_ERROR(failure);
  total.quantizers = std::move(results[0]->quantizers);
  total.loss = results[0]->loss;
  total.accuracy = static_cast<double>(results[0]->correct) /
                   static_cast<double>(digits.test.size());
  return total;
}

}  // namespace scalekeeper
