// A step in parts, for stacks that reduce the messages by themselves.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "amax/recipe_state.h"
#include "amax/recipe_state_rep.h"
#include "base/status_macros.h"

namespace scalekeeper {

absl::Status RecipeState::Rep::RequireUpdateOfParts(
    absl::string_view call) const {
  if (stale()) {
    return absl::FailedPreconditionError(
        absl::StrCat(call,
                     ": got a recipe with update.staleness: 1, want 0: a "
                     "stack that reduces by itself lets its reductions "
                     "run beside its steps as it likes"));
  }
  if (UpdateIsDue()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      call, ": step ", CurrentStep(),
      " updates nothing under update.interval: ", update().interval,
      "; end it with EndStep (UpdateIsDue tells)"));
}

absl::Status RecipeState::Pack(Stream stream, const uint32_t* skip_flag) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("Pack"));
  SK_RETURN_IF_ERROR(rep_->RequireNotPacked("Pack"));
  SK_RETURN_IF_ERROR(rep_->RequireUpdateOfParts("Pack"));
  return rep_->Pack(stream, skip_flag);
}

absl::StatusOr<AmaxMessageView> RecipeState::AmaxMessage(
    absl::string_view group) {
  SK_RETURN_IF_ERROR(rep_->RequireFrozen("AmaxMessage"));
  const uint32_t index = rep_->GroupIndex(group);
  if (index == Rep::kNoGroup) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AmaxMessage: got group \"", group,
        "\", want one of: ", internal::QuotedList(rep_->table.groups())));
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

}  // namespace scalekeeper
