// RecipeState's calls that tell what there is: all of them copies to the host.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "amax/history.h"
#include "amax/kernels_host.h"
#include "amax/recipe_state.h"
#include "amax/recipe_state_rep.h"
#include "base/device_memory.h"
#include "base/status_macros.h"

namespace scalekeeper {

std::vector<uint32_t> internal::EntriesOf(const RingView& ring,
                                          const SlotHistory& history) {
  std::vector<uint32_t> entries;
  entries.reserve(history.count);
  for (uint32_t age = history.count; age-- > 0;) {
    entries.push_back(ring.at(PositionOfAge(ring, history, age)));
  }
  return entries;
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
        "the ranks of group ", internal::QuotedList(groups),
        " did not agree on step, phase and scales",
        rep.failure.ok() ? "" : absl::StrCat(": ", rep.failure.message())));
  }
  std::vector<std::string> slots;
  for (uint32_t i = 0; i < view.slots; ++i) {
    const uint32_t times = view.non_finite_steps[i];
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
    if (view.non_finite_steps[i] != 0) {
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
  // From this slot's first word to its last, those of its neighbours between.
  RingView ring = RingOf(view, descriptor);
  std::vector<uint32_t> words((size_t{ring.len} - 1) * kRingStride + 1);
  SK_RETURN_IF_ERROR(CopyToHost(device, words.data(), ring.words,
                                words.size() * sizeof(uint32_t), stream));
  ring.words = words.data();
  return internal::EntriesOf(ring, history);
}

}  // namespace scalekeeper
