#include "amax/state_image.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "amax/natural_order.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "numerics/amax.h"
#include "numerics/bits.h"

namespace scalekeeper {
namespace {

constexpr uint32_t kMaxHistoryLen = 65536;
constexpr int kMaxMargin = 32;

absl::Status Invalid(const SlotImage& slot, absl::string_view field,
                     absl::string_view got, absl::string_view want) {
  return absl::InvalidArgumentError(absl::StrCat(
      "slot ", Quoted(slot.name), ": ", field, ": got ", got, ", want ", want));
}

absl::Status CheckAmax(const SlotImage& slot, absl::string_view field,
                       uint32_t bits) {
  if ((bits & ~kFloatMagnitudeMask) == 0) return absl::OkStatus();
  return Invalid(slot, field, absl::StrFormat("bits 0x%08X", bits),
                 "no sign bit");
}

absl::Status CheckDelayed(const SlotImage& slot, const DelayedImage& delayed) {
  const float scale = FloatFromBits(delayed.scale_bits);
  if (!(scale >= kFloatMinNormal && scale <= kFloatMax)) {
    return Invalid(slot, "scale", ShortestNumber(scale), "2^-126..FLT_MAX");
  }
  if (delayed.capacity < 1 || delayed.capacity > kMaxHistoryLen ||
      delayed.window.size() > delayed.capacity) {
    return Invalid(
        slot, "window",
        absl::StrCat(delayed.window.size(), " of ", delayed.capacity, " words"),
        absl::StrCat("at most 1..", kMaxHistoryLen));
  }
  for (uint32_t bits : delayed.window) {
    SK_RETURN_IF_ERROR(CheckAmax(slot, "window", bits));
    if (bits == 0) {
      return Invalid(slot, "window", "an amax of 0",
                     "what was observed (0 says: nothing was)");
    }
  }
  if (!delayed.options.has_value()) return absl::OkStatus();
  const ScaleOptions& options = *delayed.options;
  if (options.margin < 0 || options.margin > kMaxMargin) {
    return Invalid(slot, "margin", absl::StrCat(options.margin),
                   absl::StrCat("0..", kMaxMargin));
  }
  if (options.history_len < 1 || options.history_len > delayed.capacity ||
      delayed.window.size() > options.history_len) {
    return Invalid(
        slot, "amax_history_len", absl::StrCat(options.history_len),
        absl::StrCat("1..", delayed.capacity, ", and the ",
                     delayed.window.size(), " amaxes of the window"));
  }
  return absl::OkStatus();
}

bool NameLess(const SlotImage& a, const SlotImage& b) {
  return NaturalLess(a.name, b.name);
}

}  // namespace

bool operator==(const ScaleOptions& a, const ScaleOptions& b) {
  const auto fields = [](const ScaleOptions& o) {
    return std::tie(o.format, o.algo, o.non_finite, o.margin, o.history_len);
  };
  return fields(a) == fields(b);
}

ScaleOptions ScaleOptionsOf(const Policy& policy) {
  ScaleOptions options;
  options.format = policy.format;
  options.algo = policy.delayed.amax_compute_algo;
  options.non_finite = policy.delayed.non_finite_amax;
  options.margin = policy.delayed.margin;
  options.history_len = static_cast<uint32_t>(policy.delayed.amax_history_len);
  return options;
}

std::string Describe(const ScaleOptions& options) {
  return absl::StrCat(Name(options.format), " margin=", options.margin,
                      " amax_history_len=", options.history_len,
                      " amax_compute_algo=", Name(options.algo),
                      " non_finite_amax=", Name(options.non_finite));
}

const SlotImage* StateImage::Find(absl::string_view name) const {
  const auto it =
      std::lower_bound(slots.begin(), slots.end(), name,
                       [](const SlotImage& slot, absl::string_view wanted) {
                         return NaturalLess(slot.name, wanted);
                       });
  return it != slots.end() && it->name == name ? &*it : nullptr;
}

absl::Status ValidateImage(const StateImage& image) {
  const std::pair<absl::string_view, int64_t> counts[] = {
      {"step", image.step},
      {"updates", image.updates},
      {"collectives", image.collectives},
      {"skipped", image.skipped}};
  for (const auto& [name, count] : counts) {
    if (count >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": got ", count, ", want 0 or more"));
  }
  const SlotImage* previous = nullptr;
  for (const SlotImage& slot : image.slots) {
    if (slot.name.empty()) {
      return absl::InvalidArgumentError("slot: got an empty name");
    }
    if (previous != nullptr && !NameLess(*previous, slot)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slots: got ", Quoted(slot.name), " behind ", Quoted(previous->name),
          ", want each name once, in natural order"));
    }
    previous = &slot;
    if (!slot.group.empty() &&
        std::count(image.groups.begin(), image.groups.end(), slot.group) == 0) {
      return Invalid(slot, "group", Quoted(slot.group), "one of `groups`");
    }
    SK_RETURN_IF_ERROR(CheckAmax(slot, "amax", slot.amax_bits));
    SK_RETURN_IF_ERROR(CheckAmax(slot, "held_amax", slot.held_bits));
    if (slot.delayed.has_value()) {
      SK_RETURN_IF_ERROR(CheckDelayed(slot, *slot.delayed));
    }
  }
  return absl::OkStatus();
}

void SortSlots(StateImage* image) {
  std::sort(image->slots.begin(), image->slots.end(), NameLess);
}

}  // namespace scalekeeper
