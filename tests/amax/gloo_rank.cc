// One process of a job over Gloo; tests/amax/lost_rank_test.cc is its launcher.
//
//   gloo_rank DIRECTORY RANK SIZE LAST_STEP DEADLINE_MS CHECKPOINT
//
// Meets the others in the directory, loads the checkpoint if it is not "-",
// says "ready" and trains up to LAST_STEP, with a checkpoint every 16 steps.
// When a step fails it says
//   lost STEP STATUS-CODE TEXT
// and is told one of
//   exit
//   restore STEP             goes back to that step, says "at STEP DIGEST"
//   join NAME RANK SIZE LAST_STEP    goes on in another group, up to there
// Says "at STEP DIGEST" and "done" at the end. Nothing of it outlives 100 s.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "amax/checkpoint.h"
#include "amax/gloo_communicator.h"
#include "amax/load_state.h"
#include "amax/recipe_state.h"
#include "base/status_macros.h"
#include "tests/amax/gloo_rank_testing.h"

namespace scalekeeper {
namespace {

class Rank {
 public:
  Rank(std::string directory, int job_rank, int deadline_ms)
      : directory_(std::move(directory)),
        job_rank_(job_rank),
        deadline_(absl::Milliseconds(deadline_ms)) {}

  RecipeState& state() { return *state_; }

  // A state on a new group, with what `image` holds.
  absl::Status Join(const std::string& name, int rank, int size,
                    const StateImage* image) {
    GlooCommunicatorOptions options;
    options.name = name;
    options.deadline = deadline_;
    options.meeting_deadline = absl::Seconds(60);
    options.address = "127.0.0.1";
    SK_ASSIGN_OR_RETURN(auto group, CreateGlooCommunicatorFromFiles(
                                        directory_, rank, size, options));
    SK_ASSIGN_OR_RETURN(
        Recipe recipe,
        Recipe::Parse(absl::StrCat("defaults { all { format: E4M3 delayed { "
                                   "amax_history_len: ",
                                   kJobWindow, " } } }"),
                      "job"));
    RecipeStateOptions state_options;
    state_options.groups["default"] = group.get();
    SK_ASSIGN_OR_RETURN(auto state,
                        RecipeState::Create(std::move(recipe), state_options));
    for (int i = 0; i < kJobModules; ++i) {
      SK_RETURN_IF_ERROR(state->AddModule(absl::StrCat("m", i)).status());
    }
    SK_RETURN_IF_ERROR(state->Freeze());
    if (image != nullptr) {
      SK_RETURN_IF_ERROR(
          LoadState(*image, LoadOptions(), Stream{}, state.get()).status());
    }
    state_ = std::move(state);
    group_ = std::move(group);
    return absl::OkStatus();
  }

  absl::Status Train(int64_t last_step) {
    while (state_->step() < last_step) {
      const int64_t step = state_->step();
      for (int slot = 0; slot < kJobSlots; ++slot) {
        Observe(state_->View({slot}), JobAmax(step, job_rank_, slot));
      }
      SK_RETURN_IF_ERROR(state_->EndStep(Stream{}));
      if (state_->step() % 16 == 0) SK_RETURN_IF_ERROR(Checkpoint());
    }
    return absl::OkStatus();
  }

  absl::Status Report() {
    Digest digest;
    for (int slot = 0; slot < kJobSlots; ++slot) {
      SK_ASSIGN_OR_RETURN(const auto window, state_->Window({slot}, Stream{}));
      SK_ASSIGN_OR_RETURN(const float scale, state_->Scale({slot}, Stream{}));
      uint32_t bits = 0;
      std::memcpy(&bits, &scale, sizeof(bits));
      digest.Add(window);
      digest.Add(static_cast<uint32_t>(window.size()));
      digest.Add(bits);
    }
    std::cout << "at " << state_->step() << " " << digest.value() << std::endl;
    return absl::OkStatus();
  }

 private:
  absl::Status Checkpoint() {
    SK_ASSIGN_OR_RETURN(const StateImage image, SaveState(*state_, Stream{}));
    return WriteStateFile(
        absl::StrCat(directory_, "/state.", job_rank_, ".", state_->step()),
        image);
  }

  const std::string directory_;
  const int job_rank_;
  const absl::Duration deadline_;
  std::unique_ptr<Communicator> group_;  // after the state's
  std::unique_ptr<RecipeState> state_;
};

// What the launcher says after a lost step.
absl::Status Obey(Rank* rank) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb, name;
    int64_t step = 0;
    int new_rank = 0, size = 0;
    words >> verb;
    if (verb == "exit") return absl::OkStatus();
    if (verb == "restore" && words >> step) {
      if (rank->state().step() == step + 1) {
        SK_RETURN_IF_ERROR(rank->state().RestorePrevious(Stream{}));
      }
      SK_RETURN_IF_ERROR(rank->Report());
    } else if (verb == "join" && words >> name >> new_rank >> size >> step) {
      SK_ASSIGN_OR_RETURN(const StateImage image,
                          SaveState(rank->state(), Stream{}));
      SK_RETURN_IF_ERROR(rank->Join(name, new_rank, size, &image));
      SK_RETURN_IF_ERROR(rank->Train(step));
      return rank->Report();
    } else {
      return absl::InvalidArgumentError(line);
    }
  }
  return absl::UnavailableError("the launcher is gone");
}

absl::Status Main(char** argv) {
  Rank rank(argv[1], std::atoi(argv[2]), std::atoi(argv[5]));
  StateImage image;
  const bool loads = std::string(argv[6]) != "-";
  if (loads) {
    SK_ASSIGN_OR_RETURN(image, ReadStateFile(argv[6]));
  }
  SK_RETURN_IF_ERROR(rank.Join(loads ? "resumed" : "world", std::atoi(argv[2]),
                               std::atoi(argv[3]), loads ? &image : nullptr));
  std::cout << "ready" << std::endl;
  const absl::Status trained = rank.Train(std::atoll(argv[4]));
  if (trained.ok()) return rank.Report();
  std::cout << "lost " << rank.state().step() << " "
            << absl::StatusCodeToString(trained.code()) << " "
            << trained.message() << std::endl;
  return Obey(&rank);
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  if (argc != 7) return 64;
  ::alarm(100);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const absl::Status status = scalekeeper::Main(argv);
  std::cout << (status.ok() ? "done" : status.ToString()) << std::endl;
  return status.ok() ? 0 : 1;
}
