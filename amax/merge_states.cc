#include "amax/merge_states.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "amax/natural_order.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "numerics/amax.h"

namespace scalekeeper {
namespace {

absl::Status Differ(absl::string_view what, absl::string_view a,
                    absl::string_view b) {
  return absl::FailedPreconditionError(absl::StrCat(
      "MergeStates: ", what, ": got ", a, " and ", b, ", want the same"));
}

absl::Status DifferInSlot(const SlotImage& slot, absl::string_view field,
                          absl::string_view a, absl::string_view b) {
  return Differ(absl::StrCat("slot ", Quoted(slot.name), ": ", field), a, b);
}

std::string DescribeOptions(const DelayedImage& delayed) {
  return delayed.options.has_value() ? Describe(*delayed.options) : "not known";
}

// Aligned at the newest entries.
void MergeWindow(const std::vector<uint32_t>& from,
                 std::vector<uint32_t>* into) {
  if (from.size() > into->size()) {
    into->insert(into->begin(), from.begin(),
                 from.end() - static_cast<std::ptrdiff_t>(into->size()));
  }
  for (size_t age = 1; age <= from.size(); ++age) {
    uint32_t& entry = (*into)[into->size() - age];
    entry = MaxBits(entry, from[from.size() - age]);
  }
}

void MergeDelayed(const DelayedImage& from, DelayedImage* into) {
  MergeWindow(from.window, &into->window);
  into->capacity = std::max(into->capacity, from.capacity);
  into->in_use = into->in_use || from.in_use;
  // Bits of positive numbers compare as the numbers do.
  if (from.measure == into->measure) {
    into->scale_bits = std::min(into->scale_bits, from.scale_bits);
  } else if (into->measure) {
    into->scale_bits = from.scale_bits;
    into->measure = false;
  }
}

absl::Status MergeSlot(const SlotImage& from, SlotImage* into) {
  if (from.role != into->role) {
    return DifferInSlot(from, "role", Name(into->role), Name(from.role));
  }
  if (from.identity != into->identity) {
    return DifferInSlot(from, "identity", Quoted(into->identity),
                        Quoted(from.identity));
  }
  if (from.group != into->group) {
    return DifferInSlot(from, "group", Quoted(into->group), Quoted(from.group));
  }
  into->amax_bits = MaxBits(into->amax_bits, from.amax_bits);
  into->held_bits = MaxBits(into->held_bits, from.held_bits);
  into->non_finite_steps =
      std::max(into->non_finite_steps, from.non_finite_steps);
  if (!from.delayed.has_value()) return absl::OkStatus();
  if (!into->delayed.has_value()) {
    into->delayed = from.delayed;
    return absl::OkStatus();
  }
  if (from.delayed->options != into->delayed->options) {
    return DifferInSlot(from, "options", DescribeOptions(*into->delayed),
                        DescribeOptions(*from.delayed));
  }
  MergeDelayed(*from.delayed, &*into->delayed);
  return absl::OkStatus();
}

absl::Status MergeHead(const StateImage& from, const MergeOptions& options,
                       StateImage* into) {
  if (from.step != into->step && !options.allow_different_steps) {
    return Differ("step", absl::StrCat(into->step), absl::StrCat(from.step));
  }
  if (from.numerics_version != into->numerics_version) {
    return Differ("numerics_version", absl::StrCat(into->numerics_version),
                  absl::StrCat(from.numerics_version));
  }
  if (from.recipe_fingerprint != into->recipe_fingerprint) {
    if (!options.allow_different_recipes) {
      return Differ("recipe_fingerprint", Quoted(into->recipe_fingerprint),
                    Quoted(from.recipe_fingerprint));
    }
    into->recipe.clear();
  }
  into->step = std::max(into->step, from.step);
  into->updates = std::max(into->updates, from.updates);
  into->collectives = std::max(into->collectives, from.collectives);
  into->skipped = std::max(into->skipped, from.skipped);
  into->held = into->held || from.held;
  into->held_skip = into->held_skip || from.held_skip;
  into->kept_skip = into->kept_skip || from.kept_skip;
  into->groups.insert(into->groups.end(), from.groups.begin(),
                      from.groups.end());
  std::sort(into->groups.begin(), into->groups.end());
  into->groups.erase(std::unique(into->groups.begin(), into->groups.end()),
                     into->groups.end());
  return absl::OkStatus();
}

// Both are sorted by name.
absl::Status MergeSlots(const StateImage& from, StateImage* into) {
  std::vector<SlotImage> merged;
  merged.reserve(std::max(from.slots.size(), into->slots.size()));
  size_t next = 0;
  for (const SlotImage& slot : from.slots) {
    while (next < into->slots.size() &&
           NaturalLess(into->slots[next].name, slot.name)) {
      merged.push_back(std::move(into->slots[next++]));
    }
    if (next == into->slots.size() || into->slots[next].name != slot.name) {
      merged.push_back(slot);
      continue;
    }
    SK_RETURN_IF_ERROR(MergeSlot(slot, &into->slots[next]));
    merged.push_back(std::move(into->slots[next++]));
  }
  for (; next < into->slots.size(); ++next) {
    merged.push_back(std::move(into->slots[next]));
  }
  into->slots = std::move(merged);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateImage> MergeStates(absl::Span<const StateImage> images,
                                       const MergeOptions& options) {
  if (images.empty()) {
    return absl::InvalidArgumentError(
        "MergeStates: got no image, want at least 1");
  }
  for (size_t i = 0; i < images.size(); ++i) {
    const absl::Status valid = ValidateImage(images[i]);
    if (valid.ok()) continue;
    return absl::Status(valid.code(), absl::StrCat("MergeStates: image ", i,
                                                   ": ", valid.message()));
  }
  StateImage merged = images[0];
  for (const StateImage& image : images.subspan(1)) {
    SK_RETURN_IF_ERROR(MergeHead(image, options, &merged));
    SK_RETURN_IF_ERROR(MergeSlots(image, &merged));
  }
  if (merged.recipe.empty()) merged.recipe_fingerprint.clear();
  return merged;
}

}  // namespace scalekeeper
