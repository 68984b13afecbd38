// `scalekeeper quantize`: flags, files and exit codes.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"
#include "tools/quantize.h"

namespace scalekeeper {
namespace {

struct Flags {
  std::string recipe, module, input, shape, out, modules;
  std::string role;
  std::string dtype;
  int64_t step = 0;
};

// What the flags say, short of reading files.
absl::StatusOr<TensorJob> MakeJob(const Flags& flags) {
  TensorJob job;
  job.module = flags.module;
  SK_RETURN_IF_ERROR(CheckModuleName("--module", job.module));
  job.role = RoleOfName(flags.role);
  job.dtype = DTypeOfName(flags.dtype);
  SK_RETURN_IF_ERROR(ParseShape("--shape", flags.shape, &job.rows, &job.cols));
  SK_RETURN_IF_ERROR(CheckStep(flags.step));
  job.step = flags.step;
  return job;
}

}  // namespace

int RunQuantize(absl::Span<const std::string> args, std::ostream& out,
                std::ostream& err) {
  FlagSet flags(
      "quantize", "",
      "Quantizes one tensor as a recipe says, in a fresh state: a delayed\n"
      "policy follows its first_step (MEASURE: this tensor's amax; UNIT: 1).\n"
      "\n"
      "Writes into DIR, all little-endian and row-major, all or none:\n"
      "  codes.bin        R x C codes, one byte each (E2M1: two, the first in\n"
      "                   the low nibble, rows padded to whole bytes;\n"
      "                   high_precision: values of the policy's dtype)\n"
      "  scale_inv.bin    what code values are multiplied with: float32, for\n"
      "                   mxfp8 an E8M0 and for nvfp4 an E4M3 byte each, in\n"
      "                   the shape that info.json tells (empty for\n"
      "                   high_precision, which has no scale)\n"
      "  tensor_scale_inv.bin   nvfp4: float32, multiplied too (of other\n"
      "                   scalings: removed, if an earlier run left it)\n"
      "  codes_t.bin, scale_inv_t.bin, tensor_scale_inv_t.bin   the\n"
      "                   column-wise copy, C x R\n"
      "  info.json        format, shapes, amax, scale, statistics: underflow\n"
      "                   and saturation are fractions, non_finite counts\n"
      "                   elements; what JSON has no number for is a string\n"
      "                   (\"nan\", \"inf\", \"-inf\"), no scale is null");
  Flags f;
  flags.String("recipe", &f.recipe, "FILE", "recipe file or preset (required)");
  flags.String("module", &f.module, "NAME", "as in training (required)");
  flags.Choice("role", &f.role, {"input", "weight", "grad"}, "(required)");
  flags.String("input", &f.input, "FILE",
               "raw values, little-endian, row-major (required)");
  flags.Choice("dtype", &f.dtype, {"bf16", "fp16", "fp32"},
               "of the input (required)");
  flags.String("shape", &f.shape, "RxC", "of the input (required)");
  flags.String("out", &f.out, "DIR", "made if it does not exist (required)");
  flags.Int64("step", &f.step, "N", "training step, for recipes with phases");
  flags.String("modules", &f.modules, "NAMES.txt",
               "all modules, one a line; for rules by layer number");
  std::vector<std::string> operands;
  if (const auto exit_code = flags.Parse(args, operands, out, err)) {
    return *exit_code;
  }
  if (!operands.empty()) {
    return flags.UsageError(
        absl::StrCat("unexpected argument ", Quoted(operands[0])), err);
  }
  for (const char* required :
       {"recipe", "module", "role", "input", "dtype", "shape", "out"}) {
    if (!flags.Has(required)) {
      return flags.UsageError(absl::StrCat("want --", required), err);
    }
  }
  if (f.recipe.empty() || f.input.empty() || f.out.empty()) {
    return flags.UsageError("got an empty --recipe, --input or --out", err);
  }
  absl::StatusOr<TensorJob> job = MakeJob(f);
  if (!job.ok()) return flags.UsageError(job.status().message(), err);

  const absl::StatusOr<Recipe> recipe = Recipe::Load(f.recipe);
  if (!recipe.ok()) return ReportStatus(recipe.status(), err);
  if (flags.Has("modules")) {
    absl::StatusOr<std::vector<std::string>> modules =
        ReadModuleNames(f.modules);
    if (!modules.ok()) return ReportStatus(modules.status(), err);
    job->modules = *std::move(modules);
  }
  const absl::StatusOr<std::string> values = ReadTensorFile(*job, f.input);
  if (!values.ok()) return ReportStatus(values.status(), err);
  const absl::StatusOr<QuantizedFiles> result =
      QuantizeValues(*recipe, *job, *values, f.input);
  if (!result.ok()) return ReportStatus(result.status(), err);
  std::vector<std::string> touched = result->absent;
  for (const auto& file : result->files) touched.push_back(file.first);
  for (const std::string& name : touched) {
    for (const std::string& input : {f.input, f.recipe}) {
      if (SameFile(absl::StrCat(f.out, "/", name), input)) {
        return flags.UsageError(
            absl::StrCat("--out: would overwrite or remove ", input), err);
      }
    }
  }
  const absl::Status written =
      WriteFileSet(f.out, result->files, result->absent);
  if (!written.ok()) return ReportStatus(written, err);
  out << result->summary << "\n";
  return kExitOk;
}

}  // namespace scalekeeper
