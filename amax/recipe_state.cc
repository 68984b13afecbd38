#include "amax/recipe_state.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "amax/agreement.h"
#include "amax/amax_group.h"
#include "amax/annotate.h"
#include "amax/arena.h"
#include "amax/device_steps.h"
#include "amax/group_table.h"
#include "amax/history.h"
#include "amax/kernels.h"
#include "amax/kernels_host.h"
#include "amax/phase_switcher.h"
#include "amax/recipe_state_rep.h"
#include "amax/slot_table.h"
#include "amax/update.h"
#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace internal {

void DieOfMisuse(absl::string_view what) {
  std::fprintf(stderr, "scalekeeper: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

std::string QuotedList(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  return absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\"");
}

}  // namespace internal

using internal::QuotedList;

absl::StatusOr<uint32_t> RecipeState::Rep::ArenaIndex(
    SlotId slot, absl::string_view call) const {
  SK_RETURN_IF_ERROR(RequireFrozen(call));
  if (!Knows(slot)) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": got slot ", slot.value, ", want 0..",
                     static_cast<int64_t>(table.size()) - 1));
  }
  if (!table.delayed_in_some_phase(slot.value)) {
    const Policy& policy =
        table.policies(slot.value)[static_cast<size_t>(phases.active_phase())];
    return absl::FailedPreconditionError(absl::StrCat(
        call, ": slot \"", table.name(slot.value), "\" is ",
        Name(policy.scaling), " and keeps no scale; only delayed slots do"));
  }
  return static_cast<uint32_t>(table.arena_index(slot.value));
}

// ---------------------------------------------------------------- Freeze

absl::Status RecipeState::Rep::CheckGroupsAreBound() const {
  if (options.groups.empty()) return absl::OkStatus();
  std::vector<std::string> bound, lacking;
  for (const auto& [name, communicator] : options.groups) bound.push_back(name);
  for (const std::string& name : table.groups()) {
    if (options.groups.count(name) == 0) lacking.push_back(name);
  }
  for (const std::string& name : table.amax_groups()) {
    if (options.groups.count(name) == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "amax_group: the recipe names ", QuotedList(table.amax_groups()),
          ", but no communicator is bound to \"", name, "\"; bound are ",
          QuotedList(bound)));
    }
  }
  if (lacking.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "amax_reduction.group: the recipe reduces over ", QuotedList(lacking),
      ", which no communicator is bound to; bound are ", QuotedList(bound)));
}

absl::Status RecipeState::Rep::CheckChip() const {
  if (!options.check_chip || options.device == Device::Host()) {
    return absl::OkStatus();
  }
  ChipCheckOptions check;
  SK_ASSIGN_OR_RETURN(check.compute_capability,
                      ComputeCapability(options.device));
  constexpr Gemm kOfInference[] = {Gemm::kFprop};
  if (options.inference) check.gemms = kOfInference;
  return table.CheckChip(recipe, check);
}

absl::Status RecipeState::Rep::Allocate() {
  ArenaLayout layout = PhaseSwitcher::LayoutOf(table);
  layout.held = stale();
  const bool on_host = options.device == Device::Host();
  Allocator* allocator = options.allocator;
  if (allocator == nullptr) {
    SK_ASSIGN_OR_RETURN(allocator, DefaultAllocator(options.device));
  }
  SK_ASSIGN_OR_RETURN(
      Arena made, Arena::Create(on_host ? allocator : HostAllocator(), layout));
  arena = std::make_unique<Arena>(std::move(made));
  phases = PhaseSwitcher(&table, arena.get(),
                         recipe.ActivePhase(step_before_freeze));
  arena->view().step->step = step_before_freeze;
  queued_step = step_before_freeze;
  amax_groups.clear();
  for (const std::string& name : table.amax_groups()) {
    const auto bound = options.groups.find(name);
    if (bound == options.groups.end()) continue;
    amax_groups[name] = std::make_unique<AmaxGroup>(name, bound->second,
                                                    options.device, allocator);
  }
  RehashScalesHost(HeldView(arena->view()));
  if (on_host) return absl::OkStatus();
  std::vector<DeviceSteps::Group> groups;
  for (const auto& [name, communicator] : options.groups) {
    const uint32_t index = GroupIndex(name);
    if (index != Rep::kNoGroup) groups.push_back({name, index, communicator});
  }
  SK_ASSIGN_OR_RETURN(
      steps, DeviceSteps::Create(options.device, allocator, layout, update(),
                                 arena.get(), std::move(groups)));
  return absl::OkStatus();
}

// Every bound group is joined, whether the recipe uses it or not, even after an
// error: a rank whose recipe differs must not leave the others waiting.
absl::Status RecipeState::Rep::Agree(const absl::Status& local,
                                     absl::string_view call) const {
  absl::Status status = local;
  for (const auto& [name, communicator] : options.groups) {
    const absl::Status agreed = Annotate(
        AgreeOnTable(communicator, Stream{}, status,
                     local.ok() ? GroupFingerprint(recipe, table, name) : 0,
                     [&, group = absl::string_view(name)] {
                       return DescribeGroup(recipe, table, group);
                     }),
        absl::StrCat(call, ", group \"", name, "\""));
    if (status.ok()) status = agreed;
  }
  return status;
}

absl::Status RecipeState::Freeze() {
  Rep& rep = *rep_;
  if (rep.frozen) {
    return absl::FailedPreconditionError("Freeze: was called before");
  }
  absl::Status local = rep.table.Resolve(rep.recipe);
  if (local.ok()) local = rep.CheckGroupsAreBound();
  if (local.ok()) local = rep.CheckChip();
  if (local.ok()) local = rep.Allocate();
  SK_RETURN_IF_ERROR(rep.Agree(local, "Freeze"));
  SK_RETURN_IF_ERROR(DeviceSteps::AgreeOnExchange(
      rep.options.groups, rep.options.exchange, rep.steps.get()));
  rep.frozen = true;
  return absl::OkStatus();
}

// ------------------------------------------------------------------ steps

absl::Status RecipeState::Rep::Pack(Stream stream, const uint32_t* skip_flag) {
  if (steps) {
    if (absl::Status status = steps->Poll(); !status.ok()) return Fail(status);
  }
  if (!stale() && update().interval > 1) {
    SK_RETURN_IF_ERROR(KeepSkip(options.device, StateArena().view(),
                                update().interval, skip_flag,
                                steps ? steps->guard() : StepGuard(), stream));
    skip_flag = StateArena().view().kept_skip;
  }
  SK_RETURN_IF_ERROR(
      PackMessages(options.device, StepView(), skip_flag, stream));
  packed = true;
  return absl::OkStatus();
}

// Groups in the order of their names, the same on every rank, so that ranks
// which are in several groups cannot wait for each other in a circle. After the
// first failure the others are not joined: their ranks must not complete a step
// that this rank cannot.
absl::Status RecipeState::Rep::Reduce(Stream stream, int64_t* collectives) {
  for (const auto& [name, communicator] : options.groups) {
    const AmaxMessageView message = Message(GroupIndex(name));
    if (message.count == 0) continue;
    const absl::Status status = communicator->AllReduceMax(
        absl::MakeSpan(message.data, message.count), stream);
    if (!status.ok()) {
      return Annotate(status,
                      absl::StrCat("EndStep of step ", arena->view().step->step,
                                   ", group \"", name, "\""));
    }
    ++*collectives;
  }
  return absl::OkStatus();
}

absl::Status RecipeState::Rep::Update(Stream stream, const uint32_t* skip_flag,
                                      int64_t collectives) {
  const ArenaView view = StepView();
  const int64_t step = view.step->step;
  SK_RETURN_IF_ERROR(UpdateSlots(options.device, view, UpdateSource::kMessages,
                                 skip_flag, StepGuard(), stream));
  packed = false;
  if (view.step->applied == 0) {
    return Fail(absl::DataLossError(absl::StrCat(
        "step ", step, ": the ranks of group ", QuotedList(DisagreeingGroups()),
        " do not agree on step, phase and scales (this rank: step ", step,
        ", phase ", phases.active_phase(),
        "); nothing was updated. Bring all of them to one state, e.g. with "
        "RestorePrevious or from a checkpoint")));
  }
  *view.kept_skip = 0;
  held = false;
  previous_counters = counters;
  phases.Commit();
  ++counters.updates;
  counters.collectives += collectives;
  counters.skipped = view.step->skipped_steps;
  return SwitchPhase(view.step->step, stream);
}

absl::Status RecipeState::Rep::HostEndStep(Stream stream,
                                           const uint32_t* skip_flag,
                                           bool due) {
  const ArenaView& view = arena->view();
  if (stale() ? held : due) {
    SK_RETURN_IF_ERROR(Pack(stream, stale() ? nullptr : skip_flag));
    int64_t collectives = 0;
    absl::Status status = Reduce(stream, &collectives);
    packed = false;
    if (!status.ok()) return Fail(std::move(status));
    SK_RETURN_IF_ERROR(Update(stream, /*skip_flag=*/nullptr, collectives));
  } else {
    SK_RETURN_IF_ERROR(CountStep(options.device, StepView(), update().interval,
                                 due, stale() ? nullptr : skip_flag,
                                 StepGuard(), stream));
    SK_RETURN_IF_ERROR(SwitchPhase(view.step->step, stream));
  }
  if (!stale()) return absl::OkStatus();
  KeepSkipHost(view, skip_flag);
  if (!due) return absl::OkStatus();
  SK_RETURN_IF_ERROR(
      HoldSlots(options.device, view, view.kept_skip, StepGuard(), stream));
  *view.kept_skip = 0;
  held = true;
  return absl::OkStatus();
}

absl::Status RecipeState::Rep::FailEndStep(const absl::Status& status,
                                           int64_t step) {
  return Fail(Annotate(status, absl::StrCat("EndStep of step ", step)));
}

absl::Status RecipeState::Rep::DeviceEndStep(Stream stream,
                                             const uint32_t* skip_flag,
                                             bool due) {
  if (absl::Status status = steps->Poll(); !status.ok()) return Fail(status);
  if (stale() && captured_steps == 0) {
    SK_ASSIGN_OR_RETURN(const bool capturing,
                        IsCapturing(options.device, stream));
    if (capturing) SK_RETURN_IF_ERROR(steps->CheckCapture(held));
  }
  const bool updates = stale() ? held : due;
  int64_t collectives = 0;
  absl::Status status;
  if (!updates) {
    status = steps->QueueCount(due, stale() ? nullptr : skip_flag, stream);
  } else if (stale()) {
    status = steps->QueueHeldUpdate(stream, &collectives);
  } else {
    status = steps->Queue(skip_flag, stream, &collectives);
  }
  if (!status.ok()) return FailEndStep(status, queued_step);
  const int64_t step = queued_step;
  if (updates) held = false;
  SK_RETURN_IF_ERROR(AfterQueued(stream, collectives, updates));
  if (!stale()) return absl::OkStatus();
  collectives = 0;
  status = due ? steps->QueueHold(skip_flag, stream, &collectives)
               : steps->QueueKeep(skip_flag, stream);
  if (!status.ok()) return FailEndStep(status, step);
  if (due) held = true;
  counters.collectives += collectives;
  return absl::OkStatus();
}

absl::Status RecipeState::Rep::DeviceUpdate(Stream stream,
                                            const uint32_t* skip_flag) {
  if (absl::Status status = steps->Poll(); !status.ok()) return Fail(status);
  SK_RETURN_IF_ERROR(UpdateSlots(options.device, steps->arena().view(),
                                 UpdateSource::kMessages, skip_flag,
                                 steps->guard(), stream));
  if (update().interval > 1) SK_RETURN_IF_ERROR(steps->ForgetSkip(stream));
  packed = false;
  return AfterQueued(stream, /*collectives=*/0, /*updated=*/true);
}

// The step was queued: the host goes on as if it succeeded. A graph counts its
// steps on the device alone.
absl::Status RecipeState::Rep::AfterQueued(Stream stream, int64_t collectives,
                                           bool updated) {
  SK_ASSIGN_OR_RETURN(const bool capturing,
                      IsCapturing(options.device, stream));
  if (capturing) {
    ++captured_steps;
    in_graph = true;
    return absl::OkStatus();
  }
  captured_steps = 0;
  if (updated) {
    previous_counters = counters;
    ++counters.updates;
  }
  counters.collectives += collectives;
  ++queued_step;
  if (absl::Status status = steps->Warning(); !status.ok()) return Fail(status);
  if (recipe.ActivePhase(queued_step) == phases.active_phase()) {
    return absl::OkStatus();
  }
  const int64_t expected = queued_step;
  SK_RETURN_IF_ERROR(Fetch(Arena::Extent::kAll, stream));
  if (absl::Status status = steps->Poll(); !status.ok()) return Fail(status);
  if (absl::Status status = steps->Warning(); !status.ok()) return Fail(status);
  if (queued_step != expected) {
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", expected,
        " was to begin another phase, but the device stands "
        "at ",
        queued_step, ": replayed graphs count, too; call SetStep"));
  }
  return SwitchPhase(queued_step, stream);
}

absl::Status RecipeState::Rep::Fetch(Arena::Extent extent, Stream stream) {
  if (!steps) return absl::OkStatus();
  SK_RETURN_IF_ERROR(steps->Fetch(extent, stream));
  const StepState& state = *arena->view().step;
  queued_step = state.step;
  counters.skipped = state.skipped_steps;
  if (state.sequence != switch_sequence) phases.Commit();
  return absl::OkStatus();
}

absl::Status RecipeState::Rep::FetchToRewrite(Stream stream) {
  if (!steps) return absl::OkStatus();
  SK_RETURN_IF_ERROR(Fetch(Arena::Extent::kAll, stream));
  return steps->Poll();
}

absl::Status RecipeState::Rep::StoreRewritten(bool held_skip, Stream stream) {
  const ArenaView view = HeldView(arena->view());
  queued_step = view.step->step;
  captured_steps = 0;
  previous_counters = counters;
  restore_floor = switch_sequence = view.step->sequence;
  RehashScalesHost(view);
  for (uint32_t g = 0; held_skip && g < view.groups; ++g) {
    OwnControl(view, g)[0] = 1;
  }
  if (steps) steps->ForgetReductions();
  return Store(Arena::Extent::kAll, stream);
}

// On a GPU after Fetch of everything.
absl::Status RecipeState::Rep::SwitchPhase(int64_t step, Stream stream) {
  const int phase = recipe.ActivePhase(step);
  if (phase == phases.active_phase()) return absl::OkStatus();
  phases.SwitchTo(phase);
  switch_sequence = arena->view().step->sequence;
  RehashScalesHost(HeldView(arena->view()));
  return Store(Arena::Extent::kAll, stream);
}

absl::Status RecipeState::Rep::MoveTo(int64_t step) {
  const ArenaView view = HeldView(arena->view());
  view.step->step = step;
  queued_step = step;
  SK_RETURN_IF_ERROR(SwitchPhase(step, Stream{}));
  for (uint32_t g = 0; g < view.groups; ++g) {
    PrepareControl(view, g, view.group_states[g].scale_hash, step,
                   view.step->phase);
  }
  return Store(Arena::Extent::kHead, Stream{});
}

absl::Status RecipeState::Rep::Drain() {
  if (!held) return absl::OkStatus();
  const int64_t step = CurrentStep();
  int64_t collectives = 0;
  if (steps) {
    SK_RETURN_IF_ERROR(steps->WaitForDevice());
    SK_RETURN_IF_ERROR(steps->QueueHeldUpdate(Stream{}, &collectives));
    held = false;
    SK_RETURN_IF_ERROR(AfterQueued(Stream{}, collectives, /*updated=*/true));
    SK_RETURN_IF_ERROR(Fetch(Arena::Extent::kAll, Stream{}));
  } else {
    SK_RETURN_IF_ERROR(Pack(Stream{}, nullptr));
    const absl::Status status = Reduce(Stream{}, &collectives);
    packed = false;
    if (!status.ok()) return Fail(status);
    SK_RETURN_IF_ERROR(Update(Stream{}, nullptr, collectives));
  }
  return MoveTo(step);
}

absl::Status RecipeState::SetStep(int64_t step) {
  if (step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("SetStep: got ", step, ", want 0 or more"));
  }
  Rep& rep = *rep_;
  if (!rep.frozen) {
    rep.step_before_freeze = step;
    return absl::OkStatus();
  }
  SK_RETURN_IF_ERROR(rep.RequireNotPacked("SetStep"));
  rep.captured_steps = 0;
  if (step == this->step() &&
      rep.recipe.ActivePhase(step) == rep.phases.active_phase()) {
    return absl::OkStatus();
  }
  SK_RETURN_IF_ERROR(rep.Drain());
  if (rep.steps) {
    SK_RETURN_IF_ERROR(rep.steps->WaitForDevice());
    SK_RETURN_IF_ERROR(rep.Fetch(Arena::Extent::kAll, Stream{}));
    if (absl::Status status = rep.steps->Poll(); !status.ok()) {
      return rep.Fail(std::move(status));
    }
  }
  return rep.MoveTo(step);
}

int64_t RecipeState::step() const {
  return rep_->frozen ? rep_->CurrentStep() : rep_->step_before_freeze;
}

absl::Status RecipeState::Rep::EndStep(Stream stream, const uint32_t* skip_flag,
                                       bool due) {
  return steps ? DeviceEndStep(stream, skip_flag, due)
               : HostEndStep(stream, skip_flag, due);
}

absl::Status RecipeState::EndStep(Stream stream, const uint32_t* skip_flag) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("EndStep"));
  SK_RETURN_IF_ERROR(rep_->RequireNotPacked("EndStep"));
  return rep_->EndStep(stream, skip_flag, rep_->UpdateIsDue());
}

absl::Status RecipeState::DiscardStep(Stream stream) {
  static constexpr uint32_t kRaised = 1;
  const bool on_gpu = rep_->frozen && rep_->steps != nullptr;
  return EndStep(stream, on_gpu ? rep_->steps->raised_flag() : &kRaised);
}

bool RecipeState::UpdateIsDue() const {
  return frozen() && rep_->UpdateIsDue();
}

absl::Status RecipeState::JoinReduction(Stream stream) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("JoinReduction"));
  return rep_->steps ? rep_->steps->JoinReductions(stream) : absl::OkStatus();
}

absl::Status RecipeState::CommitCalibration(Stream stream) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("CommitCalibration"));
  SK_RETURN_IF_ERROR(rep_->RequireNotPacked("CommitCalibration"));
  SK_RETURN_IF_ERROR(rep_->EndStep(stream, nullptr, /*due=*/true));
  SK_RETURN_IF_ERROR(rep_->Drain());
  return Check(stream);
}

absl::Status RecipeState::RestorePrevious(Stream stream) {
  Rep& rep = *rep_;
  SK_RETURN_IF_ERROR(rep.RequireFrozen("RestorePrevious"));
  SK_RETURN_IF_ERROR(rep.RequireNotPacked("RestorePrevious"));
  SK_RETURN_IF_ERROR(rep.Fetch(Arena::Extent::kAll, stream));
  const ArenaView& view = rep.arena->view();
  if (view.step->sequence == rep.restore_floor) {
    return absl::FailedPreconditionError(
        absl::StrCat("RestorePrevious: the state before step ", step(),
                     " is not kept; one completed step can be undone, once"));
  }
  rep.phases.Revert();
  UndoSlotsHost(HeldView(view));
  for (uint32_t i = 0; i < view.slots; ++i) {
    view.amax[view.descriptors[i].amax_index] = 0;
  }
  *view.kept_skip = 0;
  rep.held = false;
  rep.captured_steps = 0;
  rep.queued_step = view.step->step;
  rep.counters = rep.previous_counters;
  rep.restore_floor = rep.switch_sequence = view.step->sequence;
  RehashScalesHost(HeldView(view));
  return rep.Store(Arena::Extent::kAll, stream);
}

// ------------------------------------------------------------ declaration

absl::Status CheckGroups(const std::map<std::string, Communicator*>& groups) {
  for (const auto& [name, communicator] : groups) {
    if (communicator == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("options.groups[\"", name,
                       "\"]: got null, want this rank's communicator"));
    }
  }
  return absl::OkStatus();
}

RecipeState::RecipeState(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
RecipeState::~RecipeState() = default;

absl::StatusOr<std::unique_ptr<RecipeState>> RecipeState::Create(
    Recipe recipe, RecipeStateOptions options) {
  SK_RETURN_IF_ERROR(ValidateAmaxDevice(options.device));
  if (options.allocator != nullptr &&
      options.allocator->device() != options.device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "options.allocator: got one for ", Name(options.allocator->device()),
        ", want one for ", Name(options.device)));
  }
  SK_RETURN_IF_ERROR(CheckGroups(options.groups));
  return std::unique_ptr<RecipeState>(new RecipeState(
      std::make_unique<Rep>(std::move(recipe), std::move(options))));
}

absl::StatusOr<ModuleSlots> RecipeState::AddModule(absl::string_view module,
                                                   absl::string_view identity) {
  if (frozen()) {
    return absl::FailedPreconditionError(
        absl::StrCat("AddModule(\"", module,
                     "\") after Freeze: add all modules before, or Refreeze"));
  }
  SK_ASSIGN_OR_RETURN(const auto slots,
                      rep_->table.AddModule(module, identity));
  return ModuleSlots{{slots[0]}, {slots[1]}, {slots[2]}};
}

absl::StatusOr<std::vector<ModuleSlots>> RecipeState::AddModules(
    absl::string_view family, int count, absl::string_view suffix) {
  if (frozen()) {
    return absl::FailedPreconditionError(
        absl::StrCat("AddModules(\"", family,
                     "\") after Freeze: add all modules before, or Refreeze"));
  }
  SK_ASSIGN_OR_RETURN(const int32_t first,
                      rep_->table.AddModules(family, count, suffix));
  std::vector<ModuleSlots> modules;
  for (int32_t slot = first; slot < first + 3 * count; slot += 3) {
    modules.push_back({{slot}, {slot + 1}, {slot + 2}});
  }
  return modules;
}

absl::StatusOr<SlotId> RecipeState::AddSlot(absl::string_view module,
                                            absl::string_view name, Role role) {
  if (frozen()) {
    return absl::FailedPreconditionError(
        absl::StrCat("AddSlot(\"", module, "\", \"", name,
                     "\") after Freeze: add all slots before"));
  }
  SK_ASSIGN_OR_RETURN(const int32_t slot,
                      rep_->table.AddSlot(module, name, role));
  return SlotId{slot};
}

}  // namespace scalekeeper
