#include "gemm/native_product.h"

#include "absl/strings/str_cat.h"

namespace scalekeeper::internal {
namespace {

constexpr int64_t kBlock = 128;

ScaleMode FloatMode(OperandKind kind) {
  return kind == OperandKind::k128x128 ? ScaleMode::kBlock128x128
                                       : ScaleMode::kVec128;
}

bool IsOuter(OperandKind kind) {
  return kind == OperandKind::kPerTensor || kind == OperandKind::kRowwise;
}

bool DTypesDiffer(const MatmulInput& a, const MatmulInput& b) {
  return !a.is_codes() && !b.is_codes() && a.values.dtype != b.values.dtype;
}

}  // namespace

OperandKind KindOf(const MatmulInput& input) {
  const BlockScales& scales = input.grid.scales;
  switch (input.scaling) {
    case Scaling::kHighPrecision:
      return OperandKind::kPlain;
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      return OperandKind::kPerTensor;
    case Scaling::kRowwise:
      return OperandKind::kRowwise;
    case Scaling::kBlock:
      if (scales.block_cols != kBlock) return OperandKind::kOther;
      if (scales.block_rows == 1) return OperandKind::k1x128;
      return scales.block_rows == kBlock ? OperandKind::k128x128
                                         : OperandKind::kOther;
    case Scaling::kMxfp8:
      return OperandKind::kMxfp8;
    case Scaling::kNvfp4:
      return OperandKind::kNvfp4;
    case Scaling::kCustom:
      break;
  }
  return OperandKind::kOther;
}

std::optional<ScaleModes> ChooseScaleModes(const MatmulInput& a,
                                           const MatmulInput& b,
                                           int compute_capability) {
  const OperandKind kind_a = KindOf(a);
  const OperandKind kind_b = KindOf(b);
  if (!IsMultiplied(kind_a, kind_b, compute_capability) || DTypesDiffer(a, b)) {
    return std::nullopt;
  }
  switch (kind_a) {
    case OperandKind::kMxfp8:
      return ScaleModes{ScaleMode::kVec32Ue8m0, ScaleMode::kVec32Ue8m0};
    case OperandKind::kNvfp4:
      return ScaleModes{ScaleMode::kVec16Ue4m3, ScaleMode::kVec16Ue4m3};
    case OperandKind::kPlain:
      return ScaleModes();
    default:
      break;
  }
  if (kind_a == OperandKind::kPerTensor && kind_b == OperandKind::kPerTensor) {
    return ScaleModes();
  }
  if (IsOuter(kind_a) && IsOuter(kind_b)) {
    return ScaleModes{ScaleMode::kOuterVec, ScaleMode::kOuterVec};
  }
  ScaleModes modes = {FloatMode(kind_a), FloatMode(kind_b)};
  // There is no 128x128 x 128x128: the blocks of `a` are written out as 1x128.
  if (modes.a == modes.b) modes.a = ScaleMode::kVec128;
  return modes;
}

absl::Status RefuseProduct(const MatmulProblem& p, const ChipIdentity& chip,
                           int compute_capability) {
  constexpr absl::string_view kSwitch =
      "; with emulate (MatmulOptions, or a recipe's matmul { ... { emulate: "
      "true } }) it is computed in bfloat16";
  const std::string pair = absl::StrCat(TypeName(p.a), " x ", TypeName(p.b));
  const std::string where =
      absl::StrCat(chip.name, " (compute capability ", compute_capability / 10,
                   ".", compute_capability % 10, ")");
  if (ChooseScaleModes(p.a, p.b, compute_capability).has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        Name(p), ": cuBLASLt ", chip.cublaslt_version, " has no algorithm on ",
        where, " for ", pair, " of this shape, neither into ",
        p.codes ? Name(p.codes->format) : Name(p.out.dtype),
        " nor, with N and K padded to whole multiples of 16 (mxfp8, nvfp4: K "
        "of 32), into float32",
        kSwitch));
  }
  const std::string chips = DTypesDiffer(p.a, p.b)
                                ? "no chip"
                                : ChipsThatMultiply(KindOf(p.a), KindOf(p.b));
  return absl::FailedPreconditionError(absl::StrCat(
      Name(p), ": ", where, " does not multiply ", pair, ", ",
      chips == "no chip"
          ? "which no chip does"
          : absl::StrCat("which compute capability ", chips, " does"),
      kSwitch));
}

}  // namespace scalekeeper::internal
