// `scalekeeper import`: what another stack says, as a recipe or a state.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/checkpoint.h"
#include "amax/import_arrays.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/flag_set.h"
#include "tools/import_recipe.h"
#include "tools/load_recipe.h"

namespace scalekeeper {
namespace {

const std::vector<std::string>& Sources() {
  static const auto* const sources =
      new std::vector<std::string>{"megatron", "te", "arrays"};
  return *sources;
}

// The index of the word that says what is imported; all behind it is another
// program's.
size_t SourceIndex(absl::Span<const std::string> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    for (const std::string& source : Sources()) {
      if (args[i] == source) return i;
    }
  }
  return args.size();
}

int ImportRecipe(const absl::StatusOr<ImportedRecipe>& recipe,
                 const std::string& output, std::ostream& out,
                 std::ostream& err) {
  if (!recipe.ok()) return ReportStatus(recipe.status(), err);
  for (const std::string& note : recipe->notes) err << "note: " << note << "\n";
  if (output.empty()) {
    out << recipe->text;
    return kExitOk;
  }
  const absl::Status written = WriteFile(output, recipe->text);
  return written.ok() ? kExitOk : ReportStatus(written, err);
}

absl::Status ImportState(const std::string& input, const std::string& output,
                         std::ostream& out) {
  constexpr size_t kMaxBytes = size_t{1} << 28;
  SK_ASSIGN_OR_RETURN(const std::string json, ReadFile(input, kMaxBytes + 1));
  if (json.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        input, ": got more than ", kMaxBytes, " bytes, want at most that"));
  }
  absl::StatusOr<StateImage> image = ImportArraysJson(json);
  if (!image.ok()) {
    return absl::Status(image.status().code(),
                        absl::StrCat(input, ": ", image.status().message()));
  }
  SK_RETURN_IF_ERROR(WriteStateFile(output, *image));
  out << output << ": step " << image->step << ", " << image->slots.size()
      << " slots\n";
  return absl::OkStatus();
}

}  // namespace

int RunImport(absl::Span<const std::string> args, std::ostream& out,
              std::ostream& err) {
  FlagSet flags(
      "import", "megatron FLAG... | te OPTION... | arrays FILE.json",
      "Turns what another stack says into a recipe, or its state into one "
      "that\nRecipeStates load.\n"
      "  megatron: Megatron-LM's flags of FP8 and FP4, as\n"
      "    scalekeeper import megatron --fp8-format hybrid "
      "--fp8-amax-history-len 1024\n"
      "  te: options of TransformerEngine's DelayedScaling, as\n"
      "    scalekeeper import te fp8_format=HYBRID amax_history_len=16\n"
      "  arrays: scale and amax_history by position, with the slots' names\n"
      "    (proto/positional.proto says how); wants --output\n"
      "This command's own flags come before that word. Options that are not\n"
      "known, or that would have no effect, are errors.");
  std::string output;
  std::string layers(kMegatronLayers);
  flags.String("output", &output, "FILE",
               "where it goes (else: to the output)");
  flags.String("layers", &layers, "PATTERN",
               "of module names by layer, for --first-last-layers-bf16");
  const size_t source = SourceIndex(args);
  std::vector<std::string> operands;
  if (const auto exit_code =
          flags.Parse(args.subspan(0, source), operands, out, err)) {
    return *exit_code;
  }
  if (!operands.empty()) {
    return flags.UsageError(absl::StrCat("unknown source ", Quoted(operands[0]),
                                         DidYouMean(operands[0], Sources()),
                                         ", want megatron, te or arrays"),
                            err);
  }
  if (source == args.size()) {
    return flags.UsageError("want megatron, te or arrays", err);
  }
  if (flags.Has("output") && output.empty()) {
    return flags.UsageError("--output: got an empty name", err);
  }
  if (flags.Has("layers") && args[source] != "megatron") {
    return flags.UsageError(
        absl::StrCat("--layers: has no effect with ", args[source]), err);
  }
  const absl::Span<const std::string> rest = args.subspan(source + 1);
  if (args[source] == "megatron") {
    return ImportRecipe(ImportMegatron(rest, layers), output, out, err);
  }
  if (args[source] == "te") {
    return ImportRecipe(ImportTransformerEngine(rest), output, out, err);
  }
  if (rest.size() != 1 || output.empty()) {
    return flags.UsageError("want --output=STATE arrays FILE.json", err);
  }
  if (SameFile(rest[0], output)) {
    return flags.UsageError(absl::StrCat("--output: would overwrite ", rest[0]),
                            err);
  }
  const absl::Status status = ImportState(rest[0], output, out);
  return status.ok() ? kExitOk : ReportStatus(status, err);
}

}  // namespace scalekeeper
