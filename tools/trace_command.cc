// scalekeeper trace convert | info
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/load_recipe.h"
#include "trace/binary_writer.h"
#include "trace/csv_writer.h"
#include "trace/ranked_trace.h"

namespace scalekeeper {
namespace {

struct Conversion {
  std::string input;
  std::string histograms;  // a CSV to read, or empty
  std::string output;
  bool to_csv = false;
  std::string histograms_out;  // a CSV to write, or empty
};

struct Converted {
  int64_t steps = 0;
  int64_t histograms = 0;
  int64_t histograms_dropped = 0;
  size_t columns = 0;
  std::vector<std::string> warnings;
};

absl::StatusOr<Converted> Convert(const Conversion& conversion) {
  std::vector<std::string> histograms;
  if (!conversion.histograms.empty()) histograms = {conversion.histograms};
  SK_ASSIGN_OR_RETURN(RankedTrace trace,
                      RankedTrace::Open({conversion.input}, histograms));
  std::unique_ptr<TraceWriter> writer;
  if (conversion.to_csv) {
    SK_ASSIGN_OR_RETURN(
        writer, CsvTraceWriter::Create(conversion.output, trace.header(),
                                       conversion.histograms_out));
  } else {
    SK_ASSIGN_OR_RETURN(
        writer, BinaryTraceWriter::Create(conversion.output, trace.header(),
                                          OutputFile::Mode::kReplace));
  }
  Converted result;
  result.columns = trace.header().columns.size();
  const bool drops = conversion.to_csv && conversion.histograms_out.empty();
  std::vector<TraceStep> steps;
  for (;;) {
    SK_ASSIGN_OR_RETURN(const bool more, trace.Next(&steps));
    if (!more) break;
    SK_RETURN_IF_ERROR(writer->Write(steps[0]));
    ++result.steps;
    (drops ? result.histograms_dropped : result.histograms) +=
        static_cast<int64_t>(steps[0].histograms.size());
  }
  SK_RETURN_IF_ERROR(writer->Close());
  result.warnings = trace.warnings();
  return result;
}

int RunConvert(absl::Span<const std::string> args, std::ostream& out,
               std::ostream& err) {
  FlagSet flags(
      "trace convert", "IN OUT",
      "Converts the trace of one rank: between the binary form, which a run\n"
      "records, and CSV. What IN is, its first bytes say; OUT is a CSV if its "
      "name\nends in .csv, else binary.\n\n"
      "Log2 histograms of tensors are part of a binary trace and a CSV of "
      "their own\nbeside a CSV trace: step,quantizer,e<K>,...; column e<K> "
      "counts 2^K <= |x| <\n2^(K+1), the first one everything smaller as "
      "well.\n\n"
      "A binary trace whose end is torn (the run crashed) gives its whole "
      "steps, and\na warning says where it tears.\n\n"
      "Exit code: 0 converted, 1 IN has faults, 2 wrong usage or a file that "
      "cannot be\nread or written.");
  Conversion conversion;
  std::string to = "";
  std::string output = "table";
  flags.Choice("to", &to, {"csv", "binary"}, "form of OUT, whatever its name");
  flags.String("histograms", &conversion.histograms, "FILE.csv",
               "histograms beside a CSV trace IN");
  flags.String("histograms_out", &conversion.histograms_out, "FILE.csv",
               "where the histograms go beside a CSV trace OUT");
  flags.Choice("output", &output, {"table", "json"}, "how to print the result");
  std::vector<std::string> files;
  if (auto exit_code = flags.Parse(args, files, out, err)) return *exit_code;
  if (files.size() != 2) return flags.UsageError("want IN and OUT", err);
  conversion.input = files[0];
  conversion.output = files[1];
  conversion.to_csv =
      to.empty() ? absl::EndsWith(files[1], ".csv") : to == "csv";
  if (!conversion.to_csv && !conversion.histograms_out.empty()) {
    return flags.UsageError(
        "--histograms_out: a binary OUT holds the histograms itself", err);
  }
  if (conversion.output == conversion.histograms_out) {
    return flags.UsageError(
        absl::StrCat(conversion.output, ": is OUT and --histograms_out"), err);
  }
  for (const std::string* read : {&conversion.input, &conversion.histograms}) {
    for (const std::string* written :
         {&conversion.output, &conversion.histograms_out}) {
      if (SameFile(*read, *written)) {
        return flags.UsageError(
            absl::StrCat(*written, ": would overwrite what is read"), err);
      }
    }
  }
  const absl::StatusOr<Converted> result = Convert(conversion);
  if (!result.ok()) return ReportStatus(result.status(), err);
  for (const std::string& warning : result->warnings) err << warning << "\n";
  if (result->histograms_dropped > 0) {
    err << conversion.input << ": warning: " << result->histograms_dropped
        << " histograms are left out, want --histograms_out=FILE.csv\n";
  }
  if (output == "json") {
    out << "{\"out\": " << JsonString(conversion.output)
        << ", \"steps\": " << result->steps
        << ", \"quantizers\": " << result->columns
        << ", \"histograms\": " << result->histograms << "}\n";
  } else {
    out << result->steps << " steps, " << result->columns << " quantizers, "
        << result->histograms << " histograms in " << conversion.output << "\n";
  }
  return kExitOk;
}

struct Info {
  TraceHeader header;
  int64_t steps = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t histograms = 0;
  std::vector<std::string> warnings;
};

absl::StatusOr<Info> ReadInfo(const std::string& path) {
  SK_ASSIGN_OR_RETURN(RankedTrace trace, RankedTrace::Open({path}, {}));
  Info info;
  std::vector<TraceStep> steps;
  for (;;) {
    SK_ASSIGN_OR_RETURN(const bool more, trace.Next(&steps));
    if (!more) break;
    if (info.steps++ == 0) info.first_step = steps[0].step;
    info.last_step = steps[0].step;
    info.histograms += static_cast<int64_t>(steps[0].histograms.size());
  }
  info.header = trace.header();
  info.warnings = trace.warnings();
  return info;
}

int RunInfo(absl::Span<const std::string> args, std::ostream& out,
            std::ostream& err) {
  FlagSet flags("trace info", "FILE",
                "Shows what a trace holds, and whether it is whole.\n\n"
                "Exit code: 0 shown, 1 the trace has faults, 2 wrong usage or "
                "a file that\ncannot be read.");
  std::string output = "table";
  flags.Choice("output", &output, {"table", "json"}, "how to print it");
  std::vector<std::string> files;
  if (auto exit_code = flags.Parse(args, files, out, err)) return *exit_code;
  if (files.size() != 1) return flags.UsageError("want one FILE", err);
  const absl::StatusOr<Info> info = ReadInfo(files[0]);
  if (!info.ok()) return ReportStatus(info.status(), err);
  for (const std::string& warning : info->warnings) err << warning << "\n";
  const TraceHeader& header = info->header;
  if (output == "json") {
    out << "{\"steps\": " << info->steps
        << ", \"first_step\": " << info->first_step
        << ", \"last_step\": " << info->last_step
        << ", \"histograms\": " << info->histograms
        << ", \"whole\": " << (info->warnings.empty() ? "true" : "false")
        << ", \"rank\": "
        << (header.rank < 0 ? "null" : absl::StrCat(header.rank))
        << ", \"ranks\": "
        << (header.ranks < 0 ? "null" : absl::StrCat(header.ranks))
        << ", \"recipe_fingerprint\": "
        << (header.recipe_fingerprint.empty()
                ? "null"
                : JsonString(header.recipe_fingerprint))
        << ", \"quantizers\": [";
    for (size_t i = 0; i < header.columns.size(); ++i) {
      out << (i == 0 ? "" : ", ") << JsonString(header.columns[i].name);
    }
    out << "]}\n";
    return kExitOk;
  }
  out << info->steps << " steps (" << info->first_step << " to "
      << info->last_step << "), " << header.columns.size() << " quantizers, "
      << info->histograms << " histograms\n";
  if (header.rank >= 0) {
    out << "rank " << header.rank;
    if (header.ranks >= 0) out << " of " << header.ranks;
    out << "\n";
  }
  if (!header.recipe_fingerprint.empty()) {
    out << "recorded under recipe " << header.recipe_fingerprint << "\n";
  }
  for (const TraceColumn& column : header.columns) out << column.name << "\n";
  return kExitOk;
}

}  // namespace

int RunTrace(absl::Span<const std::string> args, std::ostream& out,
             std::ostream& err) {
  const std::string help =
      "Usage: scalekeeper trace convert|info [FLAGS] ...\n\n"
      "Works with recorded amaxes.\n\n"
      "  convert  between the binary form and CSV\n"
      "  info     show what a trace holds, and whether it is whole\n\n"
      "'scalekeeper trace convert --help' says more.\n";
  if (args.empty()) {
    err << help;
    return kExitTrouble;
  }
  if (args[0] == "--help" || args[0] == "-h") {
    out << help;
    return kExitOk;
  }
  if (args[0] == "convert") return RunConvert(args.subspan(1), out, err);
  if (args[0] == "info") return RunInfo(args.subspan(1), out, err);
  err << "scalekeeper trace: unknown subcommand " << Quoted(args[0])
      << DidYouMean(args[0], {"convert", "info"})
      << "\nTry 'scalekeeper trace --help'.\n";
  return kExitTrouble;
}

}  // namespace scalekeeper
