#include "recipe/gemm_capability.h"

#include "absl/strings/str_cat.h"

namespace scalekeeper {
namespace {

// Compute capabilities; none where last < first.
struct Chips {
  int first = 0;
  int last = 0;
};
constexpr int kNewest = 1 << 20;
constexpr Chips kEvery = {0, kNewest};
constexpr Chips kNone = {1, 0};
constexpr Chips kWithFp8 = {89, kNewest};
constexpr Chips kHopper = {90, 90};
constexpr Chips kBlackwell = {100, kNewest};

bool HasFloatScales(OperandKind kind) {
  return kind == OperandKind::kPerTensor || kind == OperandKind::kRowwise ||
         kind == OperandKind::k1x128 || kind == OperandKind::k128x128;
}

Chips ChipsOf(OperandKind a, OperandKind b) {
  if (HasFloatScales(a) && HasFloatScales(b)) {
    return a == OperandKind::kPerTensor && b == OperandKind::kPerTensor
               ? kWithFp8
               : kHopper;
  }
  if (a != b) return kNone;
  switch (a) {
    case OperandKind::kPlain:
      return kEvery;
    case OperandKind::kMxfp8:
    case OperandKind::kNvfp4:
      return kBlackwell;
    default:
      return kNone;
  }
}

}  // namespace

OperandKind OperandKindOf(const Policy& policy) {
  switch (policy.scaling) {
    case Scaling::kHighPrecision:
      return OperandKind::kPlain;
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      return OperandKind::kPerTensor;
    case Scaling::kRowwise:
      return OperandKind::kRowwise;
    case Scaling::kBlock:
      return policy.block.block_shape == BlockShape::k1x128
                 ? OperandKind::k1x128
                 : OperandKind::k128x128;
    case Scaling::kMxfp8:
      return OperandKind::kMxfp8;
    case Scaling::kNvfp4:
      return OperandKind::kNvfp4;
    case Scaling::kCustom:
      break;
  }
  return OperandKind::kOther;
}

bool IsMultiplied(OperandKind a, OperandKind b, int compute_capability) {
  const Chips chips = ChipsOf(a, b);
  return compute_capability >= chips.first && compute_capability <= chips.last;
}

std::string ChipsThatMultiply(OperandKind a, OperandKind b) {
  const Chips chips = ChipsOf(a, b);
  if (chips.last < chips.first) return "no chip";
  if (chips.first == 0) return "every chip";
  return absl::StrCat(chips.first / 10, ".", chips.first % 10,
                      chips.last == kNewest ? " and newer" : "");
}

}  // namespace scalekeeper
