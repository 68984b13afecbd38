// scalekeeper recommend
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/json.h"
#include "replay/ranking.h"
#include "replay/recommend.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"
#include "tools/progress.h"
#include "tools/trace_flags.h"

namespace scalekeeper {
namespace {

constexpr char kDescription[] =
    "Makes a recipe from recorded amaxes: per role the window, margin and, for "
    "grad,\nformat that lose least (tensors that saturate plus elements that "
    "underflow), and\nrules for quantizers that lose much less under a policy "
    "of their own. Reasons\nand figures are comments in the file, with those "
    "of the baseline beside them.\n"
    "\n"
    "Of every four runs of 30 steps the last is held out: policies are chosen "
    "on the\nothers and judged on these. Underflow is seen only in traces with "
    "histograms;\nwithout them grad stays in E5M2.\n"
    "\n"
    "Exit code: 0 written, 1 the trace or baseline has faults, or what was "
    "made loses\nmore than the baseline on the steps held out (it is written "
    "all the same), 2\nwrong usage or a file that cannot be read or written.";

std::string FiguresJson(const Recommendation::Figures& figures) {
  const auto part = [](const SlotStatistics& s) {
    return absl::StrCat(
        "{\"tensors\": ", s.tensors,
        ", \"saturated_tensors\": ", s.saturated_tensors,
        ", \"saturated_share\": ", JsonNumber(s.saturated_share()),
        ", \"underflow_share\": ",
        s.elements > 0 ? JsonNumber(s.underflow_share()) : "null", "}");
  };
  return absl::StrCat("{\"chosen_on\": ", part(figures.chosen_on),
                      ", \"held_out\": ", part(figures.held_out), "}");
}

std::string FiguresLine(const std::string& label, const SlotStatistics& s) {
  return absl::StrCat(
      "  ", label, ": ", Percent(s.saturated_share()),
      " of the tensors saturate, ",
      s.elements > 0 ? Percent(s.underflow_share()) : "an unknown share",
      " of the elements underflow\n");
}

}  // namespace

int RunRecommend(absl::Span<const std::string> args, std::ostream& out,
                 std::ostream& err) {
  FlagSet flags("recommend", "", kDescription);
  TraceFlags trace;
  std::string path;
  std::string baseline_name = "delayed_hybrid";
  std::string output = "table";
  RecommendOptions options;
  int64_t threads = 0;
  AddTraceFlags(&flags, &trace);
  flags.String("out", &path, "FILE", "where the recipe goes (required)");
  flags.String("baseline", &baseline_name, "FILE",
               "recipe file or preset to compare with");
  flags.Bool("current", &options.allow_current,
             "rules may choose current scaling, which reads a tensor twice");
  flags.Choice("output", &output, {"table", "json"},
               "how to print the figures");
  flags.Int64("threads", &threads, "N", "threads; 0: as many as cores");
  std::vector<std::string> operands;
  if (const auto exit_code = flags.Parse(args, operands, out, err)) {
    return *exit_code;
  }
  if (!operands.empty()) {
    return flags.UsageError(
        absl::StrCat("unexpected argument '", operands[0], "'"), err);
  }
  if (const absl::Status status = trace.Check(); !status.ok()) {
    return flags.UsageError(status.message(), err);
  }
  if (path.empty()) return flags.UsageError("want --out=FILE", err);
  if (threads < 0 || threads > 1024) {
    return flags.UsageError("want --threads of 0..1024", err);
  }
  if (trace.bytes() == 0) {
    return flags.UsageError("--trace: want files, which are read twice", err);
  }
  std::vector<std::string> inputs = trace.paths();
  inputs.push_back(baseline_name);
  for (const std::string& read : inputs) {
    if (SameFile(read, path)) {
      return flags.UsageError(
          absl::StrCat("--out: would overwrite ", read, ", which is read"),
          err);
    }
  }
  options.threads = static_cast<int>(threads);
  absl::StatusOr<Recipe> baseline = Recipe::Load(baseline_name);
  if (!baseline.ok()) return ReportStatus(baseline.status(), err);
  Progress progress("trying policies on step", err);
  options.progress = [&](size_t rows) {
    progress.Update(static_cast<int64_t>(rows), 0);
  };
  const absl::StatusOr<Recommendation> made =
      Recommend([&] { return OpenTraces(trace); },
                {baseline_name, *std::move(baseline)}, options);
  if (!made.ok()) return ReportStatus(made.status(), err);
  for (const std::string& warning : made->warnings) err << warning << "\n";
  const absl::Status written = WriteFile(path, made->text);
  if (!written.ok()) return ReportStatus(written, err);
  if (output == "json") {
    out << "{\"out\": " << JsonString(path) << ", \"rules\": " << made->rules
        << ", \"recommended\": " << FiguresJson(made->recommended)
        << ", \"baseline\": " << FiguresJson(made->baseline) << "}\n";
  } else {
    out << path << ": " << made->rules << " rules\non the steps held out:\n"
        << FiguresLine("recommended", made->recommended.held_out)
        << FiguresLine(baseline_name, made->baseline.held_out);
  }
  if (!made->better()) {
    err << path << ": warning: loses more than " << baseline_name
        << " on the steps held out\n";
    return kExitFindings;
  }
  return kExitOk;
}

}  // namespace scalekeeper
