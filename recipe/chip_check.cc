#include "recipe/chip_check.h"

#include <array>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "recipe/gemm_capability.h"
#include "recipe/normal_form.h"

namespace scalekeeper {
namespace {

constexpr size_t kNamedModules = 3;

// "input (mxfp8 E4M3)".
std::string DescribeOperand(Role role, const Policy& policy) {
  const bool is_plain = policy.scaling == Scaling::kHighPrecision;
  return absl::StrCat(
      Name(role), " (", Name(policy.scaling), " ",
      is_plain ? RecipeName(policy.high_precision_dtype) : Name(policy.format),
      ")");
}

// What is wrong with one GEMM of a module on the chip; empty: nothing.
std::string ConflictOf(const ResolvedModule& module, Gemm gemm,
                       int compute_capability) {
  const GemmPolicy& how = module.gemm(gemm);
  if (how.high_precision || how.emulate) return "";
  const auto [role_a, role_b] = Operands(gemm);
  const Policy& a = module.policy(role_a);
  const Policy& b = module.policy(role_b);
  const OperandKind kind_a = OperandKindOf(a);
  const OperandKind kind_b = OperandKindOf(b);
  const bool dtypes_differ = kind_a == OperandKind::kPlain &&
                             kind_b == OperandKind::kPlain &&
                             a.high_precision_dtype != b.high_precision_dtype;
  if (!dtypes_differ && IsMultiplied(kind_a, kind_b, compute_capability)) {
    return "";
  }
  return absl::StrCat(
      "compute capability ", compute_capability / 10, ".",
      compute_capability % 10, " does not multiply ",
      DescribeOperand(role_a, a), " x ", DescribeOperand(role_b, b), " in ",
      Name(gemm), " (",
      dtypes_differ ? "no chip" : ChipsThatMultiply(kind_a, kind_b),
      " multiplies them", "), want matmul { ", Name(gemm),
      " { emulate: true } } to compute it in bfloat16, high_precision: true "
      "there, or other scalings");
}

// The modules of one conflict in one phase.
struct Finding {
  std::vector<size_t> first_modules;
  size_t count = 0;
};

}  // namespace

absl::Status CheckChip(absl::Span<const int64_t> phase_steps,
                       absl::Span<const std::string> modules,
                       const ResolvedModules& resolved,
                       const ChipCheckOptions& options) {
  std::vector<std::string> lines;
  for (int phase = 0; phase < resolved.phases(); ++phase) {
    // By what modules share, in the order of the first module of each.
    absl::flat_hash_map<const ResolvedModule*, Finding> findings;
    std::vector<const ResolvedModule*> order;
    for (size_t m = 0; m < modules.size(); ++m) {
      if (options.has_gemms != nullptr && !(*options.has_gemms)[m]) continue;
      const ResolvedModule* const module = &resolved.at(phase, m);
      Finding& finding = findings[module];
      if (finding.count++ == 0) order.push_back(module);
      if (finding.first_modules.size() < kNamedModules) {
        finding.first_modules.push_back(m);
      }
    }
    for (const ResolvedModule* const module : order) {
      const Finding& finding = findings[module];
      std::string whom = absl::StrJoin(
          finding.first_modules, ", ", [&](std::string* out, size_t m) {
            absl::StrAppend(out, Quoted(modules[m]));
          });
      const size_t others = finding.count - finding.first_modules.size();
      if (others > 0) absl::StrAppend(&whom, " and ", others, " more");
      for (const Gemm gemm : options.gemms) {
        const std::string conflict =
            ConflictOf(*module, gemm, options.compute_capability);
        if (conflict.empty()) continue;
        lines.push_back(absl::StrCat(
            finding.count == 1 ? "module " : "modules ", whom,
            phase == 0 ? ""
                       : absl::StrCat(" from step ",
                                      phase_steps[static_cast<size_t>(phase)]),
            ": ", conflict));
      }
    }
  }
  if (lines.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(lines, "\n"));
}

}  // namespace scalekeeper
