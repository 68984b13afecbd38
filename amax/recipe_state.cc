#include "amax/recipe_state.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "amax/agreement.h"
#include "amax/arena.h"
#include "amax/device_steps.h"
#include "amax/group_table.h"
#include "amax/history.h"
#include "amax/kernels.h"
#include "amax/kernels_host.h"
#include "amax/phase_switcher.h"
#include "amax/slot_table.h"
#include "amax/update.h"
#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

constexpr uint32_t kNoGroup = UINT32_MAX;

// For the few calls that return a reference and so cannot return a Status.
[[noreturn]] void DieOfMisuse(absl::string_view what) {
  std::fprintf(stderr, "scalekeeper: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

std::string Quoted(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  return absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\"");
}

}  // namespace

struct RecipeState::Rep {
  Rep(Recipe recipe_in, RecipeStateOptions options_in)
      : recipe(std::move(recipe_in)), options(std::move(options_in)) {}

  absl::Status RequireFrozen(absl::string_view call) const {
    if (frozen) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(call, " before Freeze: call Freeze first"));
  }
  absl::Status RequireNotPacked(absl::string_view call) const {
    if (!packed) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        call,
        " between Pack and Update: finish the step with Update, or give "
        "it up with CancelPack"));
  }
  bool Knows(SlotId slot) const {
    return slot.value >= 0 && static_cast<size_t>(slot.value) < table.size();
  }
  int32_t CheckedSlot(SlotId slot, absl::string_view call) const {
    if (!Knows(slot)) {
      DieOfMisuse(absl::StrCat(call, ": slot ", slot.value,
                               " is not of this RecipeState, which has ",
                               table.size()));
    }
    return slot.value;
  }
  // The slot's place in the arena.
  absl::StatusOr<uint32_t> ArenaIndex(SlotId slot,
                                      absl::string_view call) const;

  absl::Status CheckGroupsAreBound() const;
  absl::Status Allocate();
  absl::Status Agree(const absl::Status& local) const;

  // kNoGroup when no slot of this state is in the group.
  uint32_t GroupIndex(absl::string_view name) const {
    const std::vector<std::string>& names = table.groups();
    const auto it = std::find(names.begin(), names.end(), name);
    return it == names.end() ? kNoGroup
                             : static_cast<uint32_t>(it - names.begin());
  }
  // Where the state lies.
  const Arena& StateArena() const { return steps ? steps->arena() : *arena; }
  // Nothing when the group has no slots in the active phase.
  AmaxMessageView Message(uint32_t group) const {
    if (group == kNoGroup) return {};
    const GroupDescriptor& d = arena->view().group_descriptors[group];
    if (d.members == 0) return {};
    return {StateArena().view().messages + d.message_offset,
            size_t{d.members} + kControlWords};
  }
  absl::Status Pack(Stream stream, const uint32_t* skip_flag);
  absl::Status Reduce(Stream stream, int64_t* collectives);
  absl::Status Update(Stream stream, const uint32_t* skip_flag,
                      int64_t collectives);
  absl::Status SwitchPhase(int64_t step, Stream stream);
  // Of a state on a GPU.
  absl::Status DeviceEndStep(Stream stream, const uint32_t* skip_flag);
  absl::Status DeviceUpdate(Stream stream, const uint32_t* skip_flag);
  absl::Status AfterQueued(Stream stream, int64_t collectives);
  // Brings `arena` up to date, and what is derived from it. Host: nothing.
  absl::Status Fetch(Arena::Extent extent, Stream stream);
  // Gives `arena` back to the device. Host: nothing.
  absl::Status Store(Arena::Extent extent, Stream stream) const {
    return steps ? steps->Store(extent, stream) : absl::OkStatus();
  }
  absl::Status Fail(absl::Status status) {
    failure = status;
    return status;
  }
  std::vector<std::string> DisagreeingGroups() const;

  const Recipe recipe;
  const RecipeStateOptions options;
  SlotTable table;
  bool frozen = false;
  // In host memory: the state itself, or the mirror of one on a GPU, which is
  // up to date (but for descriptors, groups and phase, which are always) only
  // after Fetch.
  std::unique_ptr<Arena> arena;
  std::unique_ptr<DeviceSteps> steps;  // on a GPU
  PhaseSwitcher phases;
  int64_t step_before_freeze = 0;

  bool packed = false;
  // Sequences (StepState) before which there is nothing to restore, and at the
  // last change of phase.
  uint32_t restore_floor = 0;
  uint32_t switch_sequence = 0;
  int64_t queued_step = 0;  // on a GPU: step, if all that is queued succeeds
  StepCounters counters;
  StepCounters previous_counters;
  absl::Status failure;  // of the last step that failed, until ClearFlags
};

absl::StatusOr<uint32_t> RecipeState::Rep::ArenaIndex(
    SlotId slot, absl::string_view call) const {
  SK_RETURN_IF_ERROR(RequireFrozen(call));
  if (!Knows(slot)) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": got slot ", slot.value, ", want 0..",
                     static_cast<int64_t>(table.size()) - 1));
  }
  const int32_t index = table.arena_index(slot.value);
  if (index < 0) {
    const Policy& policy =
        table.policies(slot.value)[static_cast<size_t>(phases.active_phase())];
    return absl::FailedPreconditionError(absl::StrCat(
        call, ": slot \"", table.name(slot.value), "\" is ",
        Name(policy.scaling), " and keeps no scale; only delayed slots do"));
  }
  return static_cast<uint32_t>(index);
}

// ---------------------------------------------------------------- Freeze

absl::Status RecipeState::Rep::CheckGroupsAreBound() const {
  if (options.groups.empty()) return absl::OkStatus();
  std::vector<std::string> bound, lacking;
  for (const auto& [name, communicator] : options.groups) bound.push_back(name);
  for (const std::string& name : table.groups()) {
    if (options.groups.count(name) == 0) lacking.push_back(name);
  }
  if (lacking.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "amax_reduction.group: the recipe reduces over ", Quoted(lacking),
      ", which no communicator is bound to; bound are ", Quoted(bound)));
}

absl::Status RecipeState::Rep::Allocate() {
  const ArenaLayout layout = PhaseSwitcher::LayoutOf(table);
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
  RehashScalesHost(arena->view());
  if (on_host) return absl::OkStatus();
  std::vector<DeviceSteps::Group> groups;
  for (const auto& [name, communicator] : options.groups) {
    const uint32_t index = GroupIndex(name);
    if (index != kNoGroup) groups.push_back({name, index, communicator});
  }
  SK_ASSIGN_OR_RETURN(
      steps, DeviceSteps::Create(options.device, allocator, layout, arena.get(),
                                 std::move(groups)));
  return absl::OkStatus();
}

// Every bound group is joined, whether the recipe uses it or not, even after an
// error: a rank whose recipe differs must not leave the others waiting.
absl::Status RecipeState::Rep::Agree(const absl::Status& local) const {
  absl::Status status = local;
  for (const auto& [name, communicator] : options.groups) {
    const uint32_t group = GroupIndex(name);
    const absl::Status agreed = Annotate(
        AgreeOnTable(communicator, Stream{}, status,
                     local.ok() ? GroupFingerprint(recipe, table, group) : 0,
                     [&] { return DescribeGroup(recipe, table, group); }),
        absl::StrCat("Freeze, group \"", name, "\""));
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
  if (local.ok()) local = rep.Allocate();
  SK_RETURN_IF_ERROR(rep.Agree(local));
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
  SK_RETURN_IF_ERROR(
      PackMessages(options.device, StateArena().view(), skip_flag, stream));
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
    SK_RETURN_IF_ERROR(
        Annotate(communicator->AllReduceMax(
                     absl::MakeSpan(message.data, message.count), stream),
                 absl::StrCat("EndStep of step ", arena->view().step->step,
                              ", group \"", name, "\"")));
    ++*collectives;
  }
  return absl::OkStatus();
}

std::vector<std::string> RecipeState::Rep::DisagreeingGroups() const {
  std::vector<std::string> names;
  for (uint32_t g = 0; g < arena->view().groups; ++g) {
    if (arena->view().group_states[g].ranks_disagree == 0) continue;
    names.push_back(g < table.groups().size() ? table.groups()[g]
                                              : std::string("(unreduced)"));
  }
  return names;
}

absl::Status RecipeState::Rep::Update(Stream stream, const uint32_t* skip_flag,
                                      int64_t collectives) {
  const ArenaView& view = arena->view();
  const int64_t step = view.step->step;
  SK_RETURN_IF_ERROR(UpdateSlots(options.device, view, UpdateSource::kMessages,
                                 skip_flag, StepGuard(), stream));
  packed = false;
  if (view.step->applied == 0) {
    return Fail(absl::DataLossError(absl::StrCat(
        "step ", step, ": the ranks of group ", Quoted(DisagreeingGroups()),
        " do not agree on step, phase and scales (this rank: step ", step,
        ", phase ", phases.active_phase(),
        "); nothing was updated. Bring all of them to one state, e.g. with "
        "RestorePrevious or from a checkpoint")));
  }
  previous_counters = counters;
  phases.Commit();
  ++counters.updates;
  counters.collectives += collectives;
  counters.skipped = view.step->skipped_steps;
  return SwitchPhase(view.step->step, stream);
}

absl::Status RecipeState::Rep::DeviceEndStep(Stream stream,
                                             const uint32_t* skip_flag) {
  if (absl::Status status = steps->Poll(); !status.ok()) return Fail(status);
  int64_t collectives = 0;
  if (absl::Status status = steps->Queue(skip_flag, stream, &collectives);
      !status.ok()) {
    return Fail(
        Annotate(status, absl::StrCat("EndStep of step ", queued_step)));
  }
  return AfterQueued(stream, collectives);
}

absl::Status RecipeState::Rep::DeviceUpdate(Stream stream,
                                            const uint32_t* skip_flag) {
  if (absl::Status status = steps->Poll(); !status.ok()) return Fail(status);
  SK_RETURN_IF_ERROR(UpdateSlots(options.device, steps->arena().view(),
                                 UpdateSource::kMessages, skip_flag,
                                 steps->guard(), stream));
  packed = false;
  return AfterQueued(stream, /*collectives=*/0);
}

// The step was queued: the host goes on as if it succeeded. A graph counts its
// steps on the device alone.
absl::Status RecipeState::Rep::AfterQueued(Stream stream, int64_t collectives) {
  SK_ASSIGN_OR_RETURN(const bool capturing,
                      IsCapturing(options.device, stream));
  if (capturing) return absl::OkStatus();
  previous_counters = counters;
  ++counters.updates;
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

// On a GPU after Fetch of everything.
absl::Status RecipeState::Rep::SwitchPhase(int64_t step, Stream stream) {
  const int phase = recipe.ActivePhase(step);
  if (phase == phases.active_phase()) return absl::OkStatus();
  phases.SwitchTo(phase);
  switch_sequence = arena->view().step->sequence;
  RehashScalesHost(arena->view());
  return Store(Arena::Extent::kAll, stream);
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
  if (step == this->step() &&
      rep.recipe.ActivePhase(step) == rep.phases.active_phase()) {
    return absl::OkStatus();
  }
  if (rep.steps) {
    SK_RETURN_IF_ERROR(SynchronizeDevice(rep.options.device));
    SK_RETURN_IF_ERROR(rep.Fetch(Arena::Extent::kAll, Stream{}));
  }
  const ArenaView& view = rep.arena->view();
  view.step->step = step;
  rep.queued_step = step;
  SK_RETURN_IF_ERROR(rep.SwitchPhase(step, Stream{}));
  for (uint32_t g = 0; g < view.groups; ++g) {
    PrepareControl(view, g, view.group_states[g].scale_hash, step,
                   view.step->phase);
  }
  return rep.Store(Arena::Extent::kHead, Stream{});
}

int64_t RecipeState::step() const {
  if (!rep_->frozen) return rep_->step_before_freeze;
  return rep_->steps ? rep_->queued_step : rep_->arena->view().step->step;
}

absl::Status RecipeState::EndStep(Stream stream, const uint32_t* skip_flag) {
  Rep& rep = *rep_;
  SK_RETURN_IF_ERROR(rep.RequireFrozen("EndStep"));
  SK_RETURN_IF_ERROR(rep.RequireNotPacked("EndStep"));
  if (rep.steps) return rep.DeviceEndStep(stream, skip_flag);
  SK_RETURN_IF_ERROR(rep.Pack(stream, skip_flag));
  int64_t collectives = 0;
  if (absl::Status status = rep.Reduce(stream, &collectives); !status.ok()) {
    rep.packed = false;
    return rep.Fail(std::move(status));
  }
  return rep.Update(stream, /*skip_flag=*/nullptr, collectives);
}

absl::Status RecipeState::Pack(Stream stream, const uint32_t* skip_flag) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("Pack"));
  SK_RETURN_IF_ERROR(rep_->RequireNotPacked("Pack"));
  return rep_->Pack(stream, skip_flag);
}

absl::StatusOr<AmaxMessageView> RecipeState::AmaxMessage(
    absl::string_view group) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("AmaxMessage"));
  const uint32_t index = rep_->GroupIndex(group);
  if (index == kNoGroup) {
    return absl::InvalidArgumentError(
        absl::StrCat("AmaxMessage: got group \"", group,
                     "\", want one of: ", Quoted(rep_->table.groups())));
  }
  return rep_->Message(index);
}

absl::Status RecipeState::Update(Stream stream, const uint32_t* skip_flag) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("Update"));
  if (!rep_->packed) {
    return absl::FailedPreconditionError(
        "Update without Pack: call Pack, reduce the messages, then Update");
  }
  if (rep_->steps) return rep_->DeviceUpdate(stream, skip_flag);
  return rep_->Update(stream, skip_flag, /*collectives=*/0);
}

absl::Status RecipeState::CancelPack() {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("CancelPack"));
  rep_->packed = false;
  return absl::OkStatus();
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
  UndoSlotsHost(view);
  rep.queued_step = view.step->step;
  rep.counters = rep.previous_counters;
  rep.restore_floor = rep.switch_sequence = view.step->sequence;
  RehashScalesHost(view);
  return rep.Store(Arena::Extent::kAll, stream);
}

// ---------------------------------------------------------------- reports

absl::Status RecipeState::Check(Stream stream) const {
  Rep& rep = *rep_;
  if (!rep.frozen) return absl::OkStatus();
  if (rep.steps) {
    SK_RETURN_IF_ERROR(rep.Fetch(Arena::Extent::kHead, stream));
    for (const absl::Status& status :
         {rep.steps->Poll(), rep.steps->Warning()}) {
      if (!status.ok()) (void)rep.Fail(status);
    }
  }
  const ArenaView& view = rep.arena->view();
  const std::vector<std::string> groups = rep.DisagreeingGroups();
  if (!groups.empty()) {
    return absl::DataLossError(absl::StrCat(
        "the ranks of group ", Quoted(groups),
        " did not agree on step, phase and scales",
        rep.failure.ok() ? "" : absl::StrCat(": ", rep.failure.message())));
  }
  std::vector<std::string> slots;
  for (uint32_t i = 0; i < view.slots; ++i) {
    const uint32_t times = view.histories[i].non_finite_steps;
    if (times == 0) continue;
    slots.push_back(
        absl::StrCat("\"", rep.table.name(rep.table.arena_slots()[i]), "\" (",
                     times, times == 1 ? " step)" : " steps)"));
  }
  if (slots.empty()) return rep.failure;
  std::string text =
      absl::StrCat("inf or NaN amax in ", absl::StrJoin(slots, ", "));
  if (!rep.failure.ok()) {
    absl::StrAppend(&text, "; also: ", rep.failure.message());
  }
  return absl::OutOfRangeError(text);
}

absl::StatusOr<std::vector<std::string>> RecipeState::NonFiniteSlots(
    Stream stream) const {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("NonFiniteSlots"));
  SK_RETURN_IF_ERROR(rep_->Fetch(Arena::Extent::kHead, stream));
  std::vector<std::string> names;
  const ArenaView& view = rep_->arena->view();
  for (uint32_t i = 0; i < view.slots; ++i) {
    if (view.histories[i].non_finite_steps != 0) {
      names.push_back(rep_->table.name(rep_->table.arena_slots()[i]));
    }
  }
  return names;
}

absl::Status RecipeState::ClearFlags(Stream stream) {
  rep_->failure = absl::OkStatus();
  if (!rep_->frozen) return absl::OkStatus();
  SK_RETURN_IF_ERROR(rep_->Fetch(Arena::Extent::kHead, stream));
  ClearFlagsHost(rep_->arena->view());
  if (rep_->steps) rep_->steps->ClearReports();
  return rep_->Store(Arena::Extent::kHead, stream);
}

std::string RecipeState::Describe() const {
  const Rep& rep = *rep_;
  std::string text = absl::StrCat("amax state on ", Name(rep.options.device));
  if (!rep.frozen) return absl::StrCat(text, ", not frozen\n");
  const ArenaView& view = rep.arena->view();
  absl::StrAppend(&text, ": ", view.slots, " slots, ", rep.StateArena().bytes(),
                  " bytes, step ", step(), ", phase ", active_phase(), "\n");
  for (uint32_t g = 0; g < view.groups; ++g) {
    const bool named = g < rep.table.groups().size();
    const std::string name = named ? rep.table.groups()[g] : "";
    const auto bound = rep.options.groups.find(name);
    absl::StrAppend(&text, "  ",
                    named ? absl::StrCat("group \"", name, "\"")
                          : std::string("not reduced"),
                    ": ", view.group_descriptors[g].members, " slots");
    if (named) {
      absl::StrAppend(&text, ", rank ",
                      bound == rep.options.groups.end()
                          ? std::string("0 of 1")
                          : absl::StrCat(bound->second->rank(), " of ",
                                         bound->second->size()));
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text,
                  "  step: ", rep.steps ? rep.steps->Describe() : "on the host",
                  "\n");
  return text;
}

// ------------------------------------------------------------ declaration

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
  for (const auto& [name, communicator] : options.groups) {
    if (communicator == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("options.groups[\"", name,
                       "\"]: got null, want this rank's communicator"));
    }
  }
  return std::unique_ptr<RecipeState>(new RecipeState(
      std::make_unique<Rep>(std::move(recipe), std::move(options))));
}

absl::StatusOr<ModuleSlots> RecipeState::AddModule(absl::string_view module) {
  if (frozen()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "AddModule(\"", module, "\") after Freeze: add all modules before"));
  }
  SK_ASSIGN_OR_RETURN(const int32_t first, rep_->table.AddModule(module));
  return ModuleSlots{{first}, {first + 1}, {first + 2}};
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

// -------------------------------------------------------------- accessors

bool RecipeState::frozen() const { return rep_->frozen; }
const Recipe& RecipeState::recipe() const { return rep_->recipe; }
Device RecipeState::device() const { return rep_->options.device; }
StepCounters RecipeState::counters() const { return rep_->counters; }
std::vector<std::string> RecipeState::groups() const {
  return frozen() ? rep_->table.groups() : std::vector<std::string>();
}
size_t RecipeState::slot_count() const { return rep_->table.size(); }

const std::string& RecipeState::name(SlotId slot) const {
  return rep_->table.name(rep_->CheckedSlot(slot, "name"));
}

const std::vector<Policy>& RecipeState::policies(SlotId slot) const {
  if (!frozen()) DieOfMisuse("policies before Freeze: call Freeze first");
  return rep_->table.policies(rep_->CheckedSlot(slot, "policies"));
}

const Policy& RecipeState::policy(SlotId slot) const {
  return policies(slot)[static_cast<size_t>(active_phase())];
}

int RecipeState::active_phase() const {
  return frozen() ? rep_->phases.active_phase()
                  : rep_->recipe.ActivePhase(rep_->step_before_freeze);
}

const GemmPolicy& RecipeState::gemm_policy(absl::string_view module,
                                           Gemm gemm) const {
  if (!frozen()) DieOfMisuse("gemm_policy before Freeze: call Freeze first");
  const GemmPolicy* policy =
      rep_->table.gemm_policy(active_phase(), module, gemm);
  if (policy == nullptr) {
    DieOfMisuse(absl::StrCat("gemm_policy: module \"", module,
                             "\" was not added to this RecipeState"));
  }
  return *policy;
}

SlotView RecipeState::View(SlotId slot) const {
  const absl::StatusOr<uint32_t> index = rep_->ArenaIndex(slot, "View");
  if (!index.ok()) return {};
  const ArenaView& view = rep_->StateArena().view();
  const uint32_t amax_index =
      rep_->arena->view().descriptors[*index].amax_index;
  return {view.amax + amax_index, view.scale + *index, view.scale_inv + *index,
          view.measure + *index};
}

absl::StatusOr<float> RecipeState::Scale(SlotId slot, Stream stream) const {
  SK_ASSIGN_OR_RETURN(const uint32_t index, rep_->ArenaIndex(slot, "Scale"));
  if (rep_->steps) SK_RETURN_IF_ERROR(rep_->steps->Wait(stream));
  float scale = 0;
  SK_RETURN_IF_ERROR(CopyToHost(rep_->options.device, &scale,
                                rep_->StateArena().view().scale + index,
                                sizeof(scale), stream));
  return scale;
}

absl::StatusOr<std::vector<uint32_t>> RecipeState::Window(SlotId slot,
                                                          Stream stream) const {
  SK_ASSIGN_OR_RETURN(const uint32_t index, rep_->ArenaIndex(slot, "Window"));
  if (rep_->steps) SK_RETURN_IF_ERROR(rep_->steps->Wait(stream));
  const Device device = rep_->options.device;
  const ArenaView& view = rep_->StateArena().view();
  const SlotDescriptor& descriptor = rep_->arena->view().descriptors[index];
  SlotHistory history;
  SK_RETURN_IF_ERROR(CopyToHost(device, &history, view.histories + index,
                                sizeof(history), stream));
  // The ring without the gaps between its chunks.
  RingView ring = RingOf(view, descriptor);
  const size_t chunk = size_t{1} << ring.chunk_log2;
  const size_t chunks = ChunkCount(ring.len, ring.chunk_log2);
  std::vector<uint32_t> words(chunk * chunks);
  for (size_t c = 0; c < chunks; ++c) {
    SK_RETURN_IF_ERROR(Copy(device, words.data() + c * chunk,
                            ring.words + c * ring.chunk_stride,
                            chunk * sizeof(uint32_t), stream));
  }
  SK_RETURN_IF_ERROR(Synchronize(device, stream));
  ring.words = words.data();
  ring.chunk_stride = static_cast<uint32_t>(chunk);
  std::vector<uint32_t> window;
  for (uint32_t age = history.count; age-- > 0;) {
    window.push_back(ring.at(PositionOfAge(ring, history, age)));
  }
  return window;
}

}  // namespace scalekeeper
