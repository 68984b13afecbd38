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
#include "amax/history.h"
#include "amax/kernels.h"
#include "amax/phase_switcher.h"
#include "amax/slot_table.h"
#include "amax/update.h"
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
  AgreementTable DescribeGroup(uint32_t group) const;
  uint64_t Fingerprint(uint32_t group) const;
  std::string DescribeSlot(int32_t slot) const;
  absl::Status Agree(const absl::Status& local) const;

  // kNoGroup when no slot of this state is in the group.
  uint32_t GroupIndex(absl::string_view name) const {
    const std::vector<std::string>& names = table.groups();
    const auto it = std::find(names.begin(), names.end(), name);
    return it == names.end() ? kNoGroup
                             : static_cast<uint32_t>(it - names.begin());
  }
  // Nothing when the group has no slots in the active phase.
  AmaxMessageView Message(uint32_t group) const {
    if (group == kNoGroup) return {};
    const GroupDescriptor& d = arena->view().group_descriptors[group];
    if (d.members == 0) return {};
    return {arena->view().messages + d.message_offset,
            size_t{d.members} + kControlWords};
  }
  absl::Status Pack(Stream stream, const uint32_t* skip_flag);
  absl::Status Reduce(Stream stream, int64_t* collectives);
  absl::Status Update(Stream stream, const uint32_t* skip_flag,
                      int64_t collectives);
  absl::Status SwitchPhase(int64_t step, Stream stream);
  absl::Status Fail(absl::Status status) {
    failure = status;
    return status;
  }
  std::vector<std::string> DisagreeingGroups() const;

  const Recipe recipe;
  const RecipeStateOptions options;
  SlotTable table;
  bool frozen = false;
  std::unique_ptr<Arena> arena;
  PhaseSwitcher phases;
  int64_t step_before_freeze = 0;

  bool packed = false;
  bool can_restore = false;
  int64_t previous_step = 0;
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
  if (lacking.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "amax_reduction.group: the recipe reduces over ", Quoted(lacking),
      ", which no communicator is bound to; bound are ", Quoted(bound)));
}

absl::Status RecipeState::Rep::Allocate() {
  Allocator* allocator =
      options.allocator != nullptr ? options.allocator : HostAllocator();
  SK_ASSIGN_OR_RETURN(Arena made,
                      Arena::Create(allocator, PhaseSwitcher::LayoutOf(table)));
  arena = std::make_unique<Arena>(std::move(made));
  phases = PhaseSwitcher(&table, arena.get(),
                         recipe.ActivePhase(step_before_freeze));
  arena->view().step->step = step_before_freeze;
  return RehashScales(options.device, arena->view(), Stream{});
}

std::string RecipeState::Rep::DescribeSlot(int32_t slot) const {
  std::vector<std::string> parts;
  for (int phase = 0; phase < table.phases(); ++phase) {
    const Policy& policy = table.policies(slot)[static_cast<size_t>(phase)];
    const uint32_t group = table.group(phase, slot);
    parts.push_back(
        absl::StrCat(scalekeeper::Describe(policy), ", ",
                     group == table.groups().size()
                         ? "not reduced"
                         : absl::StrCat("group ", table.groups()[group])));
  }
  return absl::StrJoin(parts, " | ");
}

AgreementTable RecipeState::Rep::DescribeGroup(uint32_t group) const {
  AgreementTable out;
  out.recipe = recipe.ToString();
  out.recipe_fingerprint = recipe.fingerprint();
  for (int32_t slot : table.arena_slots()) {
    for (int phase = 0; phase < table.phases(); ++phase) {
      if (table.group(phase, slot) != group) continue;
      out.slots.push_back({table.name(slot), DescribeSlot(slot)});
      break;
    }
  }
  return out;
}

// Of the recipe and of the slots that are in the group in some phase, with
// their policies and groups in all phases.
uint64_t RecipeState::Rep::Fingerprint(uint32_t group) const {
  std::vector<uint64_t> policies;
  for (uint32_t set = 0; set < table.policy_set_count(); ++set) {
    uint64_t hash = 0;
    for (const Policy& policy : table.policies_of_set(set)) {
      hash = HashBytes(hash, scalekeeper::Describe(policy));
    }
    policies.push_back(hash);
  }
  uint64_t hash = HashBytes(0, recipe.fingerprint());
  for (int32_t slot : table.arena_slots()) {
    bool member = false;
    uint64_t groups = 0;
    for (int phase = 0; phase < table.phases(); ++phase) {
      const uint32_t g = table.group(phase, slot);
      member = member || g == group;
      groups =
          HashBytes(groups, g < table.groups().size() ? table.groups()[g]
                                                      : absl::string_view());
    }
    if (!member) continue;
    hash = HashBytes(hash, table.name(slot));
    hash = MixBits(hash ^ policies[table.policy_set(slot)]);
    hash = MixBits(hash ^ groups);
  }
  return hash;
}

// Every bound group is joined, whether the recipe uses it or not, even after an
// error: a rank whose recipe differs must not leave the others waiting.
absl::Status RecipeState::Rep::Agree(const absl::Status& local) const {
  absl::Status status = local;
  for (const auto& [name, communicator] : options.groups) {
    const uint32_t group = GroupIndex(name);
    const absl::Status agreed =
        Annotate(AgreeOnTable(communicator, Stream{}, status,
                              local.ok() ? Fingerprint(group) : 0,
                              [&] { return DescribeGroup(group); }),
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
  rep.frozen = true;
  return absl::OkStatus();
}

// ------------------------------------------------------------------ steps

absl::Status RecipeState::Rep::Pack(Stream stream, const uint32_t* skip_flag) {
  SK_RETURN_IF_ERROR(
      PackMessages(options.device, arena->view(), skip_flag, stream));
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
  SK_RETURN_IF_ERROR(UpdateSlots(options.device, view, skip_flag, stream));
  packed = false;
  if (view.step->applied == 0) {
    return Fail(absl::DataLossError(absl::StrCat(
        "step ", step, ": the ranks of group ", Quoted(DisagreeingGroups()),
        " do not agree on step, phase and scales (this rank: step ", step,
        ", phase ", phases.active_phase(),
        "); nothing was updated. Bring all of them to one state, e.g. with "
        "RestorePrevious or from a checkpoint")));
  }
  previous_step = step;
  previous_counters = counters;
  can_restore = true;
  phases.Commit();
  ++counters.updates;
  counters.collectives += collectives;
  for (uint32_t g = 0; g < view.groups; ++g) {
    if (view.group_states[g].skipped != 0) {
      ++counters.skipped;
      break;
    }
  }
  return SwitchPhase(view.step->step, stream);
}

absl::Status RecipeState::Rep::SwitchPhase(int64_t step, Stream stream) {
  const int phase = recipe.ActivePhase(step);
  if (phase == phases.active_phase()) return absl::OkStatus();
  phases.SwitchTo(phase);
  return RehashScales(options.device, arena->view(), stream);
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
  rep.arena->view().step->step = step;
  return rep.SwitchPhase(step, Stream{});
}

int64_t RecipeState::step() const {
  return rep_->frozen ? rep_->arena->view().step->step
                      : rep_->step_before_freeze;
}

absl::Status RecipeState::EndStep(Stream stream, const uint32_t* skip_flag) {
  Rep& rep = *rep_;
  SK_RETURN_IF_ERROR(rep.RequireFrozen("EndStep"));
  SK_RETURN_IF_ERROR(rep.RequireNotPacked("EndStep"));
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
  if (!rep.can_restore) {
    return absl::FailedPreconditionError(
        absl::StrCat("RestorePrevious: the state before step ", step(),
                     " is not kept; one completed step can be undone, once"));
  }
  const ArenaView& view = rep.arena->view();
  rep.phases.Revert();
  SK_RETURN_IF_ERROR(UndoSlots(rep.options.device, view, stream));
  view.step->step = rep.previous_step;
  rep.counters = rep.previous_counters;
  rep.can_restore = false;
  return RehashScales(rep.options.device, view, stream);
}

// ---------------------------------------------------------------- reports

absl::Status RecipeState::Check(Stream) const {
  const Rep& rep = *rep_;
  if (!rep.frozen) return absl::OkStatus();
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
    Stream) const {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("NonFiniteSlots"));
  std::vector<std::string> names;
  const ArenaView& view = rep_->arena->view();
  for (uint32_t i = 0; i < view.slots; ++i) {
    if (view.histories[i].non_finite_steps != 0) {
      names.push_back(rep_->table.name(rep_->table.arena_slots()[i]));
    }
  }
  return names;
}

absl::Status RecipeState::ClearFlags(Stream) {
  rep_->failure = absl::OkStatus();
  if (!rep_->frozen) return absl::OkStatus();
  const ArenaView& view = rep_->arena->view();
  for (uint32_t i = 0; i < view.slots; ++i) {
    view.histories[i].non_finite_steps = 0;
    view.undo[i].non_finite_steps = 0;
  }
  for (uint32_t g = 0; g < view.groups; ++g) {
    view.group_states[g].ranks_disagree = 0;
  }
  return absl::OkStatus();
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
  if (!frozen() || !rep_->Knows(slot)) return {};
  const int32_t index = rep_->table.arena_index(slot.value);
  if (index < 0) return {};
  const ArenaView& view = rep_->arena->view();
  SlotView words;
  words.amax = view.amax + index;
  if (rep_->table.delayed_in_some_phase(slot.value)) {
    words.scale = view.scale + index;
    words.scale_inv = view.scale_inv + index;
    words.measure = view.measure + index;
  }
  return words;
}

absl::StatusOr<float> RecipeState::Scale(SlotId slot, Stream) const {
  SK_ASSIGN_OR_RETURN(const uint32_t index, rep_->ArenaIndex(slot, "Scale"));
  return rep_->arena->view().scale[index];
}

absl::StatusOr<std::vector<uint32_t>> RecipeState::Window(SlotId slot,
                                                          Stream) const {
  SK_ASSIGN_OR_RETURN(const uint32_t index, rep_->ArenaIndex(slot, "Window"));
  const ArenaView& view = rep_->arena->view();
  const SlotHistory& history = view.histories[index];
  const RingView ring = RingOf(view, view.descriptors[index]);
  std::vector<uint32_t> window;
  for (uint32_t age = history.count; age-- > 0;) {
    window.push_back(ring.at(PositionOfAge(ring, history, age)));
  }
  return window;
}

}  // namespace scalekeeper
