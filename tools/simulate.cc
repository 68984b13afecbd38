// scalekeeper simulate
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/file_stream.h"
#include "base/status_macros.h"
#include "replay/replay.h"
#include "replay/report.h"
#include "replay/summary.h"
#include "replay/sweep.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"
#include "tools/progress.h"
#include "tools/trace_flags.h"

namespace scalekeeper {
namespace {

constexpr char kDescription[] =
    "Replays recorded amaxes under recipes: what would each of them lose?\n"
    "\n"
    "A trace is what one rank recorded: a binary file ('scalekeeper trace') "
    "or a CSV\nstep,loss,<module>/<role>,... with that rank's amax of the step "
    "before any\nreduction; nan and inf are allowed, an empty cell says: not "
    "observed. The loss\ncolumn may be absent. Where a recipe reduces amaxes, "
    "the ranks given are one\ngroup; where it does not, rank 0 counts.\n"
    "\n"
    "Shown per recipe, the one that loses least first:\n"
    "  saturated      tensors (one rank, one step) with amax * scale above "
    "the format's\n"
    "                 maximum\n"
    "  underflow      elements that are not 0 and become 0, where the trace "
    "has\n"
    "                 histograms (of their first bucket nothing counts)\n"
    "  staleness      amax / the amax the scale was made from: above 1 it "
    "grew,\n"
    "                 1/8 leaves 3 bits of the format unused\n"
    "  scale changes  of delayed scales\n"
    "  recovery       steps after the first event until a slot's scale "
    "fitted again:\n"
    "                 median (largest, those that never did)\n"
    "Events are steps at which the loss or many amaxes jump. What rows or "
    "blocks are\nscaled by (rowwise, block, mxfp8, nvfp4) cannot be seen in a "
    "trace: '-'.\n"
    "\n"
    "--scales_csv, for one recipe: step,<module>/<role>,...; for every step "
    "the scale\nthat rank 0 uses at that step, before its update. Cells are "
    "empty where there is\nnone, and for current scaling where rank 0 observed "
    "nothing.\n"
    "\n"
    "Exit code: 0 simulated, 1 a recipe or trace has faults, 2 wrong usage or "
    "a file\nthat cannot be read or written.";

struct Arguments {
  std::string recipes;
  TraceFlags trace;
  std::vector<std::string> sweeps;
  std::string scales_path;
  std::string summary_path;
  std::string report_path;
  std::string output = "table";
  int64_t slots = 10;
  int64_t threads = 0;
};

// InvalidArgument of a recipe's own faults keeps its code (exit code 1).
absl::StatusOr<std::vector<LabeledRecipe>> LoadRecipes(
    const Arguments& arguments) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : arguments.sweeps) {
    SK_ASSIGN_OR_RETURN(SweepAxis axis, ParseSweepAxis(text));
    axes.push_back(std::move(axis));
  }
  std::vector<LabeledRecipe> recipes;
  for (const auto name : absl::StrSplit(arguments.recipes, ',')) {
    SK_ASSIGN_OR_RETURN(Recipe recipe, Recipe::Load(name));
    SK_ASSIGN_OR_RETURN(const std::vector<LabeledRecipe> variants,
                        Sweep({std::string(name), std::move(recipe)}, axes));
    recipes.insert(recipes.end(), variants.begin(), variants.end());
  }
  return recipes;
}

// step,<module>/<role>,...
class ScalesCsv {
 public:
  static absl::StatusOr<ScalesCsv> Create(const std::string& path,
                                          const TraceHeader& header) {
    SK_ASSIGN_OR_RETURN(OutputFile file,
                        OutputFile::Create(path, OutputFile::Mode::kReplace));
    std::string line = "step";
    for (const TraceColumn& column : header.columns) {
      absl::StrAppend(&line, ",", column.name);
    }
    SK_RETURN_IF_ERROR(file.Append(line + "\n"));
    return ScalesCsv(std::move(file));
  }

  absl::Status Append(const TraceBlock& block,
                      const std::vector<float>& scales) {
    std::string text;
    for (size_t row = 0; row < block.rows; ++row) {
      absl::StrAppend(&text, block.steps[row]);
      for (size_t c = 0; c < block.columns; ++c) {
        const float scale = scales[block.at(row, c)];
        text += ',';
        if (!std::isnan(scale)) absl::StrAppendFormat(&text, "%.9g", scale);
      }
      text += '\n';
    }
    return file_.Append(text);
  }
  absl::Status Close() { return file_.Close(); }

 private:
  explicit ScalesCsv(OutputFile file) : file_(std::move(file)) {}
  OutputFile file_;
};

absl::StatusOr<ReplayResult> Simulate(const Arguments& arguments,
                                      const std::vector<LabeledRecipe>& recipes,
                                      std::ostream& err) {
  SK_ASSIGN_OR_RETURN(RankedTrace trace, OpenTraces(arguments.trace));
  ReplayOptions options;
  options.threads = static_cast<int>(arguments.threads);
  options.bins = !arguments.report_path.empty();
  std::optional<ScalesCsv> scales;
  if (!arguments.scales_path.empty()) {
    SK_ASSIGN_OR_RETURN(ScalesCsv made, ScalesCsv::Create(arguments.scales_path,
                                                          trace.header()));
    scales.emplace(std::move(made));
    options.scales = [&](const TraceBlock& block,
                         const std::vector<float>& values) {
      return scales->Append(block, values);
    };
  }
  Progress progress(absl::StrCat("simulating ", recipes.size(), " recipes"),
                    err);
  options.progress = [&](size_t) {
    progress.Update(trace.bytes_read(), arguments.trace.bytes());
  };
  SK_ASSIGN_OR_RETURN(ReplayResult result, Replay(&trace, recipes, options));
  if (scales) SK_RETURN_IF_ERROR(scales->Close());
  return result;
}

void PrintTable(const Arguments& arguments, const ReplayResult& result,
                std::ostream& out) {
  out << absl::StrFormat("%d steps, %d quantizers, %d rank%s", result.steps,
                         result.header.columns.size(), result.ranks,
                         result.ranks == 1 ? "" : "s");
  if (result.recipes.size() == 1) {
    const SlotStatistics& total = result.recipes[0].total;
    out << absl::StrFormat(
        ": %d of %d scaled tensors saturate, %d non-finite amaxes",
        total.saturated_tensors, total.tensors, result.non_finite);
  } else {
    out << absl::StrFormat(", %d recipes, %d non-finite amaxes",
                           result.recipes.size(), result.non_finite);
  }
  if (!arguments.scales_path.empty()) {
    out << "; scales in " << arguments.scales_path;
  }
  out << "\n\n" << SummaryTable(result, static_cast<size_t>(arguments.slots));
}

}  // namespace

int RunSimulate(absl::Span<const std::string> args, std::ostream& out,
                std::ostream& err) {
  FlagSet flags("simulate", "", kDescription);
  Arguments arguments;
  flags.String("recipe", &arguments.recipes, "A[,B...]",
               "recipe files or presets (required)");
  AddTraceFlags(&flags, &arguments.trace);
  flags.Strings("sweep", &arguments.sweeps, "OPTION=V1,V2,...",
                "every recipe with each of these values in its delayed "
                "policies (OPTION amax_history_len, margin, "
                "amax_compute_algo) or its update (interval, staleness); may "
                "be given once per option");
  flags.String("scales_csv", &arguments.scales_path, "OUT",
               "write the scales of each step, for one recipe");
  flags.String("summary_csv", &arguments.summary_path, "OUT",
               "write a row per recipe and quantizer");
  flags.String("report", &arguments.report_path, "OUT.html",
               "write a page with the ranking, headroom of every quantizer "
               "over the steps, curves, events, ranks; one file, no network");
  flags.Choice("output", &arguments.output, {"table", "json"},
               "how to print the results");
  flags.Int64("slots", &arguments.slots, "N",
              "quantizers to list, those that lose most");
  flags.Int64("threads", &arguments.threads, "N",
              "threads; 0: as many as cores");
  std::vector<std::string> operands;
  if (const auto exit_code = flags.Parse(args, operands, out, err)) {
    return *exit_code;
  }
  if (!operands.empty()) {
    return flags.UsageError(
        absl::StrCat("unexpected argument '", operands[0], "'"), err);
  }
  if (arguments.recipes.empty()) {
    return flags.UsageError("want --recipe=FILE", err);
  }
  if (arguments.slots < 0 || arguments.threads < 0 ||
      arguments.threads > 1024) {
    return flags.UsageError("want --slots of at least 0, --threads of 0..1024",
                            err);
  }
  if (const absl::Status status = arguments.trace.Check(); !status.ok()) {
    return flags.UsageError(status.message(), err);
  }
  std::vector<std::string> read = arguments.trace.paths();
  for (const auto name : absl::StrSplit(arguments.recipes, ',')) {
    read.emplace_back(name);
  }
  const std::vector<std::pair<const char*, const std::string*>> outputs = {
      {"scales_csv", &arguments.scales_path},
      {"summary_csv", &arguments.summary_path},
      {"report", &arguments.report_path}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [flag, written] = outputs[i];
    if (flags.Has(flag) && written->empty()) {
      return flags.UsageError(absl::StrCat("--", flag, ": got an empty name"),
                              err);
    }
    for (size_t j = 0; j < i; ++j) {
      if (written->empty() || *written != *outputs[j].second) continue;
      return flags.UsageError(
          absl::StrCat("--", flag, " and --", outputs[j].first, ": got ",
                       *written, " for both"),
          err);
    }
    for (const std::string& path : read) {
      if (SameFile(path, *written)) {
        return flags.UsageError(absl::StrCat("--", flag, ": would overwrite ",
                                             path, ", which is read"),
                                err);
      }
    }
  }
  const auto recipes = LoadRecipes(arguments);
  if (!recipes.ok()) return ReportStatus(recipes.status(), err);
  if (recipes->size() > 1 && !arguments.scales_path.empty()) {
    return flags.UsageError("--scales_csv: want one recipe", err);
  }
  const absl::StatusOr<ReplayResult> result =
      Simulate(arguments, *recipes, err);
  if (!result.ok()) return ReportStatus(result.status(), err);
  for (const std::string& warning : result->warnings) err << warning << "\n";
  if (!arguments.summary_path.empty()) {
    const absl::Status written =
        WriteFile(arguments.summary_path, SummaryCsv(*result));
    if (!written.ok()) return ReportStatus(written, err);
  }
  if (!arguments.report_path.empty()) {
    const absl::Status written = WriteFile(
        arguments.report_path,
        HtmlReport(*result,
                   absl::StrCat("from ",
                                absl::StrJoin(arguments.trace.paths(), ", "))));
    if (!written.ok()) return ReportStatus(written, err);
  }
  if (arguments.output == "json") {
    out << SummaryJson(*result);
  } else {
    PrintTable(arguments, *result, out);
  }
  return kExitOk;
}

}  // namespace scalekeeper
