#include "amax/change_state.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "amax/recipe_state_rep.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

using internal::StateAccess;
using Rep = StateAccess::Rep;

absl::Status CheckReady(const Rep& rep, absl::string_view call,
                        const ChangeOptions& options) {
  SK_RETURN_IF_ERROR(rep.RequireFrozen(call));
  SK_RETURN_IF_ERROR(rep.RequireNotPacked(call));
  if (!rep.in_graph || options.recapture) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      call,
      ": recapture needed: a CUDA graph holds an EndStep of this state, and "
      "with it addresses that a change moves. Replay no old graph any more, "
      "capture anew, and say so with options.recapture"));
}

// All ranks of every bound group stand at the same step, and none has an error.
absl::Status AgreeOnStep(const Rep& rep, int64_t step, absl::string_view call) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  const uint32_t own = static_cast<uint32_t>(std::min(step, kMax));
  absl::Status status;
  for (const auto& [name, communicator] : rep.options.groups) {
    uint32_t words[] = {own, ~own};
    absl::Status reduced =
        communicator->AllReduceMax(absl::MakeSpan(words), Stream{});
    if (reduced.ok() && words[0] != ~words[1]) {
      reduced = absl::FailedPreconditionError(absl::StrCat(
          call, ", group \"", name, "\": the ranks stand at steps ", ~words[1],
          " to ", words[0],
          ", want one: RestorePrevious or load a checkpoint"));
    }
    if (status.ok()) status = reduced;
  }
  return status;
}

// What a change is, made on every rank.
struct Change {
  absl::string_view call;
  // The state to be, not allocated yet.
  std::unique_ptr<Rep> next;
  absl::Status local;    // why this rank cannot
  bool nothing = false;  // it is what there is
  bool drains = true;    // the present groups still work
};

absl::StatusOr<ChangeReport> Make(Change change, const ChangeOptions& options,
                                  Stream stream, RecipeState* state) {
  Rep& now = StateAccess::rep(*state);
  Rep& next = *change.next;
  if (change.local.ok()) change.local = CheckReady(now, change.call, options);
  if (change.local.ok()) change.local = next.table.Resolve(next.recipe);
  if (change.local.ok()) change.local = next.CheckGroupsAreBound();
  if (change.local.ok()) change.local = next.CheckChip();
  SK_RETURN_IF_ERROR(next.Agree(change.local, change.call));
  if (change.nothing) return ChangeReport();
  if (change.drains) SK_RETURN_IF_ERROR(now.Drain());
  absl::StatusOr<StateImage> image = SaveState(*state, stream);
  change.local = image.status();
  if (image.ok()) {
    next.step_before_freeze = image->step;
    change.local = next.Allocate();
  }
  SK_RETURN_IF_ERROR(next.Agree(change.local, change.call));
  SK_RETURN_IF_ERROR(AgreeOnStep(next, image->step, change.call));
  SK_RETURN_IF_ERROR(DeviceSteps::AgreeOnExchange(
      next.options.groups, next.options.exchange, next.steps.get()));
  next.frozen = true;
  next.generation = now.generation + 1;

  LoadOptions load;
  load.allow_missing = load.allow_extra = true;
  StateAccess::Exchange(*state, change.next);
  absl::StatusOr<LoadReport> carried = LoadState(*image, load, stream, state);
  if (!carried.ok()) {
    StateAccess::Exchange(*state, change.next);
    return carried.status();
  }
  ChangeReport report;
  report.changed = true;
  report.carried = *std::move(carried);
  return report;
}

Change Begin(absl::string_view call, Recipe recipe, RecipeStateOptions options,
             const RecipeState& state) {
  Change change;
  change.call = call;
  change.next = std::make_unique<Rep>(std::move(recipe), std::move(options));
  change.next->table = StateAccess::rep(state).table;
  return change;
}

}  // namespace

absl::StatusOr<ChangeReport> ApplyRecipe(Recipe recipe,
                                         const ChangeOptions& options,
                                         Stream stream, RecipeState* state) {
  const Rep& now = StateAccess::rep(*state);
  const bool nothing = recipe.fingerprint() == now.recipe.fingerprint();
  Change change = Begin("ApplyRecipe", std::move(recipe), now.options, *state);
  change.nothing = nothing;
  return Make(std::move(change), options, stream, state);
}

absl::StatusOr<ChangeReport> Refreeze(const ModuleChanges& changes,
                                      const ChangeOptions& options,
                                      Stream stream, RecipeState* state) {
  const Rep& now = StateAccess::rep(*state);
  Change change = Begin("Refreeze", now.recipe, now.options, *state);
  change.nothing = changes.add.empty() && changes.remove.empty();
  for (const std::string& module : changes.remove) {
    change.local.Update(change.next->table.RemoveModule(module));
  }
  for (const ModuleChanges::Module& module : changes.add) {
    change.local.Update(
        change.next->table.AddModule(module.name, module.identity).status());
  }
  return Make(std::move(change), options, stream, state);
}

absl::StatusOr<ChangeReport> Rebind(std::map<std::string, Communicator*> groups,
                                    const ChangeOptions& options, Stream stream,
                                    RecipeState* state) {
  const Rep& now = StateAccess::rep(*state);
  RecipeStateOptions next = now.options;
  next.groups = std::move(groups);
  SK_RETURN_IF_ERROR(CheckGroups(next.groups));
  const bool nothing = next.groups == now.options.groups;
  Change change = Begin("Rebind", now.recipe, std::move(next), *state);
  change.nothing = nothing;
  change.drains = false;
  return Make(std::move(change), options, stream, state);
}

}  // namespace scalekeeper
