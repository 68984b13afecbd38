// `scalekeeper accuracy`: flags, files and exit codes.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "recipe/recipe.h"
#include "tools/accuracy.h"
#include "tools/accuracy_report.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"
#include "tools/tensor_job.h"

namespace scalekeeper {
namespace {

struct Flags {
  std::string recipe, modules, module, role, dtype, shape;
  std::string output = "table";
  int64_t step = 0;
};

// The flags that say what a file's name may say as well.
constexpr const char* kTensorFlags[] = {"module", "role", "dtype", "shape"};

// What the file's name and the flags say; flags win.
absl::StatusOr<TensorJob> MakeJob(const FlagSet& flags, const Flags& f,
                                  const std::string& path) {
  const std::optional<TensorJob> named = TensorJobOfFileName(path);
  for (const char* flag : kTensorFlags) {
    if (named || flags.Has(flag)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("FILE: got ", Quoted(path),
                     ", want a name as layers.4.fc2.grad.128x128.bf16 "
                     "(MODULE.ROLE.ROWSxCOLS.DTYPE), or --",
                     flag));
  }
  TensorJob job = named.value_or(TensorJob());
  if (flags.Has("module")) {
    SK_RETURN_IF_ERROR(CheckModuleName("--module", f.module));
    job.module = f.module;
  }
  if (flags.Has("role")) job.role = RoleOfName(f.role);
  if (flags.Has("dtype")) job.dtype = DTypeOfName(f.dtype);
  if (flags.Has("shape")) {
    SK_RETURN_IF_ERROR(ParseShape("--shape", f.shape, &job.rows, &job.cols));
  }
  SK_RETURN_IF_ERROR(CheckStep(f.step));
  job.step = f.step;
  return job;
}

struct Tensor {
  TensorJob job;
  Buffer values;
};

}  // namespace

int RunAccuracy(absl::Span<const std::string> args, std::ostream& out,
                std::ostream& err) {
  FlagSet flags(
      "accuracy", "FILE...",
      "Quantizes tensors as recipes say and reports what was lost, for the\n"
      "row-wise copy and, where it reads back otherwise, the column-wise one.\n"
      "A FILE holds raw values, little-endian and row-major; its name tells\n"
      "what it is, as layers.4.fc2.grad.128x128.bf16, or flags do. The role\n"
      "decides the policy.\n"
      "\n"
      "Each tensor is quantized in a fresh state: a delayed policy follows "
      "its\n"
      "first_step (MEASURE: this tensor's amax; UNIT: 1).\n"
      "\n"
      "  SQNR            20 log10(|x| / |x - x^|), \"exact\" if nothing is "
      "lost\n"
      "  error/amax      max |x - x^| / max |x|\n"
      "  relative error  max |x - x^| / |x| of what does not underflow\n"
      "  underflow       of the elements that are not 0, those whose code is\n"
      "  saturated       elements that lie above the format's maximum once\n"
      "                  they are scaled, be it by a rounding");
  Flags f;
  flags.String("recipe", &f.recipe, "A,B,...",
               "recipe files or presets (default: every preset)");
  flags.Choice("output", &f.output, {"table", "json", "markdown"},
               "json: every figure in full");
  flags.Int64("step", &f.step, "N",
              "training step, for phases and stochastic rounding");
  flags.String("modules", &f.modules, "NAMES.txt",
               "all modules, one a line; for rules by layer number");
  flags.String("module", &f.module, "NAME", "of FILE, as in training");
  flags.Choice("role", &f.role, {"input", "weight", "grad"}, "of FILE");
  flags.Choice("dtype", &f.dtype, {"bf16", "fp16", "fp32"}, "of FILE");
  flags.String("shape", &f.shape, "RxC", "of FILE");
  std::vector<std::string> paths;
  if (const auto exit_code = flags.Parse(args, paths, out, err)) {
    return *exit_code;
  }
  if (paths.empty()) return flags.UsageError("want a FILE", err);
  for (const char* flag : kTensorFlags) {
    if (flags.Has(flag) && paths.size() > 1) {
      return flags.UsageError(
          absl::StrCat("--", flag, ": got ", paths.size(), " FILEs, want one"),
          err);
    }
  }
  std::vector<std::string> names = Recipe::PresetNames();
  if (flags.Has("recipe")) names = absl::StrSplit(f.recipe, ',');
  for (const std::string& name : names) {
    if (!name.empty()) continue;
    return flags.UsageError(
        absl::StrCat("--recipe: got an empty name in ", Quoted(f.recipe)), err);
  }

  std::vector<std::string> modules;
  if (flags.Has("modules")) {
    absl::StatusOr<std::vector<std::string>> read = ReadModuleNames(f.modules);
    if (!read.ok()) return ReportStatus(read.status(), err);
    modules = *std::move(read);
  }
  std::vector<Tensor> tensors;
  for (const std::string& path : paths) {
    absl::StatusOr<TensorJob> job = MakeJob(flags, f, path);
    if (!job.ok()) return flags.UsageError(job.status().message(), err);
    job->modules = modules;
    const absl::StatusOr<std::string> bytes = ReadTensorFile(*job, path);
    if (!bytes.ok()) return ReportStatus(bytes.status(), err);
    absl::StatusOr<Buffer> values = TensorValues(*job, *bytes, path);
    if (!values.ok()) return ReportStatus(values.status(), err);
    tensors.push_back({*std::move(job), *std::move(values)});
  }

  std::vector<Accuracy> results;
  for (const std::string& name : names) {
    const absl::StatusOr<Recipe> recipe = Recipe::Load(name);
    if (!recipe.ok()) return ReportStatus(recipe.status(), err);
    for (const Tensor& tensor : tensors) {
      absl::StatusOr<Accuracy> accuracy =
          MeasureAccuracy(name, *recipe, tensor.job, tensor.values);
      if (!accuracy.ok()) {
        return ReportStatus(
            absl::Status(accuracy.status().code(),
                         absl::StrCat(name, ": ", accuracy.status().message())),
            err);
      }
      results.push_back(*std::move(accuracy));
    }
  }
  out << (f.output == "json"       ? AccuracyJson(results)
          : f.output == "markdown" ? AccuracyMarkdown(results, tensors.size())
                                   : AccuracyTable(results));
  return kExitOk;
}

}  // namespace scalekeeper
