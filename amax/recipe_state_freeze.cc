// RecipeState::Freeze: binds groups, allocates, and agrees with the other
// ranks.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/agreement.h"
#include "amax/amax_group.h"
#include "amax/arena.h"
#include "amax/device_steps.h"
#include "amax/group_table.h"
#include "amax/kernels_host.h"
#include "amax/phase_switcher.h"
#include "amax/recipe_state.h"
#include "amax/recipe_state_rep.h"
#include "amax/update.h"
#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {

using internal::Annotate;
using internal::QuotedList;

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
absl::Status RecipeState::Rep::Agree(const absl::Status& local) const {
  absl::Status status = local;
  for (const auto& [name, communicator] : options.groups) {
    const absl::Status agreed = Annotate(
        AgreeOnTable(communicator, Stream{}, status,
                     local.ok() ? GroupFingerprint(recipe, table, name) : 0,
                     [&, group = absl::string_view(name)] {
                       return DescribeGroup(recipe, table, group);
                     }),
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

}  // namespace scalekeeper
