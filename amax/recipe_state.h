// RecipeState: owns every amax, scale and amax history of one job on one
// device.
//
// Order of calls: Create -> AddModule* / AddSlot* -> Freeze -> per step:
// quantize (observes into the slots), EndStep. Anything else is
// FailedPrecondition.
//
// Threads: different slots may be observed from different threads and streams
// at once; every method that is not const needs the caller's exclusion.
//
// Step. Scales are constant within a step; amaxes accumulate with max, so
// micro-batches, recomputation and shared modules change neither the history
// nor the number of collectives. EndStep packs the amaxes of each group into
// one message, reduces it (every rank always joins; an idle one contributes 0),
// updates all slots (the rule is in amax/update.h) and clears the observations.
// After a failed EndStep the state is wholly that before it (step() tells), the
// observations are kept and the step can be tried again. When one of several
// groups fails, no slot of this rank is updated and the groups after it are not
// joined. Nothing is allocated in a step.
//
// The recipe's `update` makes steps cheaper: with an interval most of them only
// count (a skip_flag of one drops the interval), RestorePrevious goes back to
// before the last update; with staleness an EndStep begins the reduction that
// the next one finishes, on a stream of its own, and SetStep, where it changes
// anything, finishes it first (a collective, then).
//
// Groups are named in the recipe (amax_reduction) and bound to communicators in
// the options. Freeze compares the recipe and each group's slots; when they
// differ, or one rank has an error, every rank of the group gets the text that
// says so. EndStep joins the groups of the active phase in the order of their
// names. Every message carries a hash of step, phase and scales: ranks that
// have drifted apart get DataLoss from EndStep, and nothing is updated.
//
// Phases. EndStep ends step() and goes on to the next one; when that begins
// another phase of the recipe, the phase comes into force at once. SetStep says
// otherwise (a resumed job, steps that are not counted by EndStep). A slot
// keeps its scale and the newest amaxes of its window; other options count from
// the next update on, another format at once (amax/load_state.h). Slots that
// are not `delayed` in a phase: amax/phase_switcher.h.
//
// On a GPU a step is queued and can be captured in a CUDA graph, the first one
// included. The Status of EndStep covers what is known when it returns; Check
// (or the next EndStep) tells the rest, and step() and counters() are those of
// the host until a call that synchronizes (those that say so, and a change of
// phase). Replays of a graph move the state on without the host: call SetStep
// between them where the recipe has phases, and capture anew after a change of
// phase (an old graph does nothing and is reported).
//
// Example:
//   SK_ASSIGN_OR_RETURN(Recipe recipe, Recipe::Load("delayed_hybrid"));
//   RecipeStateOptions options;
//   options.groups["default"] = communicator;         // none: a group of one
//   SK_ASSIGN_OR_RETURN(std::unique_ptr<RecipeState> state,
//                       RecipeState::Create(recipe, options));
//   SK_ASSIGN_OR_RETURN(ModuleSlots fc1, state->AddModule("layers.0.fc1"));
//   SK_RETURN_IF_ERROR(state->Freeze());
//   Observe(state->View(fc1.input), AmaxBits(3.0f));
//   SK_RETURN_IF_ERROR(state->EndStep(stream));       // scale is now 448 / 3
//   state->AddModule("late");                         // FailedPrecondition
#ifndef SCALEKEEPER_AMAX_RECIPE_STATE_H_
#define SCALEKEEPER_AMAX_RECIPE_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "amax/recipe_state_options.h"
#include "amax/recipe_state_types.h"
#include "amax/slot_view.h"
#include "base/device.h"
#include "recipe/recipe.h"

namespace scalekeeper {

class AmaxGroup;
namespace internal {
struct StateAccess;
}

class RecipeState {
 public:
  static absl::StatusOr<std::unique_ptr<RecipeState>> Create(
      Recipe recipe, RecipeStateOptions options);
  ~RecipeState();

  // Declares a linear layer (three slots), or one more slot (an attention's s,
  // o, dp): it takes the policy that `module` gets for `role`, and is called
  // "module/name". InvalidArgument on an empty or repeated name, or one with
  // control characters. `identity` says what a module is where its name does
  // not ("expert 12" as "local_experts.0"): ranks of a group compare it.
  absl::StatusOr<ModuleSlots> AddModule(absl::string_view module,
                                        absl::string_view identity = "");
  // A family of layers, the experts of a mixture: modules "family.0" to
  // "family.<count - 1>", or "family.0.suffix" and so on; all of them or none.
  absl::StatusOr<std::vector<ModuleSlots>> AddModules(
      absl::string_view family, int count, absl::string_view suffix = "");
  absl::StatusOr<SlotId> AddSlot(absl::string_view module,
                                 absl::string_view name, Role role);

  // Resolves, allocates, compares with the other ranks. Collective over every
  // bound group; synchronizes. FailedPrecondition naming what differs, a group
  // that is not bound, or formats that this chip cannot multiply (all at once);
  // Recipe::Resolve's errors. Can be called again after it failed.
  absl::Status Freeze();

  // The program's number of the coming step, >= 0; switches phases. Between
  // steps, or before Freeze; without effect and cheap within the same phase.
  // Several calls between two updates have the effect of the last alone.
  absl::Status SetStep(int64_t step);
  int64_t step() const;  // 0 at first

  // Pack + reduce + Update. `skip_flag` (device word, may be null): non-zero on
  // any rank of a group drops that group's observations on all of its ranks
  // (and raises no flag for them); unreduced slots follow this rank's word.
  absl::Status EndStep(Stream stream, const uint32_t* skip_flag = nullptr);

  // EndStep, but what this rank observed is dropped, and with it what the
  // others of its groups did: a skip_flag that the host raises. Every rank ends
  // the step, with one or the other.
  absl::Status DiscardStep(Stream stream);
  // Whether the coming EndStep makes scales of amaxes, or begins to: each does
  // but under the recipe's update.interval.
  bool UpdateIsDue() const;
  // update.staleness: makes the stream wait for the reduction that EndStep left
  // running on a stream of its own, as the end of a CUDA graph must.
  absl::Status JoinReduction(Stream stream);

  // The parts, for a stack that owns its collectives: Pack, reduce
  // AmaxMessage(group) of each group with uint32 max, Update; observe nothing
  // in between. A message's address is fixed from Freeze on, its count within a
  // phase: the slots in arena order, then control words; nothing for a group
  // without slots in this phase. Update's own flag must be the same on all
  // ranks.
  absl::Status Pack(Stream stream, const uint32_t* skip_flag = nullptr);
  absl::StatusOr<AmaxMessageView> AmaxMessage(absl::string_view group);
  absl::Status Update(Stream stream, const uint32_t* skip_flag = nullptr);
  // Ends a calibration: scales are made of all amaxes that Quantizer::Calibrate
  // observed since Freeze or the last step, over the ranks (docs/inference.md).
  // EndStep, once for however many batches, then Check, whose error it returns:
  // no scale was made where an amax was not finite. Synchronizes.
  absl::Status CommitCalibration(Stream stream);
  // Gives up a Pack whose reduction failed; the step can be tried again.
  absl::Status CancelPack();

  // Back to the state before the last completed step (one level; counters and a
  // change of phase since then included), so that the survivors of a lost rank
  // stand at one step. What was observed since is dropped. Synchronizes.
  absl::Status RestorePrevious(Stream stream);

  // What the last steps could not report when they were enqueued; synchronizes.
  // DataLoss when the ranks of a group disagreed, else OutOfRange naming slots
  // with a non-finite amax and in how many steps, else the error of the last
  // step that failed. Sticky until ClearFlags.
  absl::Status Check(Stream stream) const;
  absl::StatusOr<std::vector<std::string>> NonFiniteSlots(Stream stream) const;
  absl::Status ClearFlags(Stream stream);

  // Device, size, step, groups and how a step is exchanged, for people.
  std::string Describe() const;

  bool frozen() const;
  const Recipe& recipe() const;
  Device device() const;
  StepCounters counters() const;
  std::vector<std::string> groups() const;

  // The slots of a layer that was added. NotFound when there is none.
  absl::StatusOr<ModuleSlots> FindModule(absl::string_view module) const;
  // False for a slot whose module was removed (amax/change_state.h).
  bool Has(SlotId slot) const;
  // Counts the changes of recipe, modules and groups since Freeze: what was
  // asked of the state before the last one is out of date.
  int64_t generation() const;

  size_t slot_count() const;
  // Calls that return references end the process, with a message, on what is
  // not of this state, and before Freeze where that is required.
  const std::string& name(SlotId slot) const;  // "layers.0.fc1/input"
  // Of the active phase; after Freeze.
  const Policy& policy(SlotId slot) const;
  // One per phase of the recipe; after Freeze.
  const std::vector<Policy>& policies(SlotId slot) const;
  int active_phase() const;
  bool inference() const;
  // What reduces the amaxes of an amax_group over its ranks (quantizers use
  // it). Null before Freeze, and where no communicator is bound to the name.
  AmaxGroup* amax_group(absl::string_view name) const;
  const GemmPolicy& gemm_policy(absl::string_view module, Gemm gemm) const;

  // Device words of a slot whose policy is `delayed` in some phase; only an
  // amax word (for its inf or NaN) with `current`, row or block scaling. Null
  // pointers for the others, which observe nothing. After Freeze.
  SlotView View(SlotId slot) const;
  // The device word that holds step(), for kernels whose numbers depend on it;
  // a step moves it on (replays of a graph, too). Null before Freeze.
  const int64_t* StepWord() const;
  // Host copies, for people and tests; synchronizes.
  absl::StatusOr<float> Scale(SlotId slot, Stream stream) const;
  // The window's amaxes as bits, oldest first.
  absl::StatusOr<std::vector<uint32_t>> Window(SlotId slot,
                                               Stream stream) const;

 private:
  friend struct internal::StateAccess;  // of the functions on whole states
  struct Rep;
  explicit RecipeState(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_RECIPE_STATE_H_
