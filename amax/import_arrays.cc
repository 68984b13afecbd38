#include "amax/import_arrays.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "google/protobuf/util/json_util.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/scale.h"
#include "proto/positional.pb.h"

namespace scalekeeper {
namespace {

absl::Status WrongCount(size_t array, absl::string_view field, size_t got,
                        absl::string_view want) {
  return absl::InvalidArgumentError(absl::StrCat(
      "arrays[", array, "].", field, ": got ", got, " values, want ", want));
}

absl::StatusOr<Role> RoleOf(absl::string_view slot) {
  for (Role role : kRoles) {
    if (absl::EndsWith(slot, absl::StrCat("/", Name(role)))) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("slot ", Quoted(slot),
                   ": want a name that ends in /input, /weight or "
                   "/grad"));
}

absl::Status CheckCounts(size_t array, const PositionalArrays& arrays) {
  const size_t n = arrays.slots.size();
  if (arrays.scale.size() != n) {
    return WrongCount(array, "scale", arrays.scale.size(),
                      absl::StrCat(n, ", one per slot"));
  }
  if (!arrays.scale_inv.empty() && arrays.scale_inv.size() != n) {
    return WrongCount(array, "scale_inv", arrays.scale_inv.size(),
                      absl::StrCat(n, ", one per slot, or none"));
  }
  if (n == 0 || arrays.amax_history.empty() ||
      arrays.amax_history.size() % n != 0) {
    return WrongCount(array, "amax_history", arrays.amax_history.size(),
                      absl::StrCat("rows of ", n));
  }
  return absl::OkStatus();
}

absl::StatusOr<SlotImage> ImportColumn(const PositionalArrays& arrays,
                                       size_t column) {
  const size_t n = arrays.slots.size();
  const size_t rows = arrays.amax_history.size() / n;
  SlotImage slot;
  slot.name = arrays.slots[column];
  SK_ASSIGN_OR_RETURN(slot.role, RoleOf(slot.name));
  const float scale = arrays.scale[column];
  if (!arrays.scale_inv.empty() &&
      !(std::fabs(arrays.scale_inv[column] * scale - 1) < 1e-5f)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slot ", Quoted(slot.name), ": scale_inv: got ",
        ShortestNumber(arrays.scale_inv[column]), ", want 1 / scale, ",
        ShortestNumber(ScaleInverse(scale))));
  }
  slot.delayed.emplace();
  slot.delayed->scale_bits = BitsFromFloat(scale);
  slot.delayed->capacity = static_cast<uint32_t>(std::max<size_t>(rows, 2) - 1);
  for (size_t row = 0; row < rows; ++row) {
    const float amax = arrays.amax_history[row * n + column];
    if (amax < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slot ", Quoted(slot.name), ": amax_history: got ",
          ShortestNumber(amax), " in row ", row, ", want 0 or more"));
    }
    const uint32_t bits = AmaxBits(amax);
    if (row == 0) {
      slot.amax_bits = bits;
    } else if (bits != 0 && !IsNonFiniteAmax(bits)) {
      slot.delayed->window.push_back(bits);
    }
  }
  return slot;
}

}  // namespace

absl::StatusOr<StateImage> ImportArrays(
    absl::Span<const PositionalArrays> arrays, int64_t step) {
  StateImage image;
  image.step = step;
  for (size_t i = 0; i < arrays.size(); ++i) {
    SK_RETURN_IF_ERROR(CheckCounts(i, arrays[i]));
    for (size_t column = 0; column < arrays[i].slots.size(); ++column) {
      if (arrays[i].slots[column].empty()) continue;
      SK_ASSIGN_OR_RETURN(SlotImage slot, ImportColumn(arrays[i], column));
      image.slots.push_back(std::move(slot));
    }
  }
  SortSlots(&image);
  SK_RETURN_IF_ERROR(ValidateImage(image));
  return image;
}

absl::StatusOr<StateImage> ImportArraysJson(absl::string_view json) {
  proto::PositionalStates states;
  const google::protobuf::util::Status parsed =
      google::protobuf::util::JsonStringToMessage(
          google::protobuf::StringPiece(json.data(), json.size()), &states);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON: ", std::string(parsed.message())));
  }
  std::vector<PositionalArrays> arrays;
  for (const proto::PositionalArrays& in : states.arrays()) {
    PositionalArrays out;
    out.slots.assign(in.slots().begin(), in.slots().end());
    out.scale.assign(in.scale().begin(), in.scale().end());
    out.scale_inv.assign(in.scale_inv().begin(), in.scale_inv().end());
    out.amax_history.assign(in.amax_history().begin(), in.amax_history().end());
    arrays.push_back(std::move(out));
  }
  return ImportArrays(arrays, states.step());
}

}  // namespace scalekeeper
