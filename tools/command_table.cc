#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "tools/command.h"
#include "tools/commands.h"

namespace scalekeeper {
namespace {

constexpr Command kCommands[] = {
    {"lint", "check recipe files", RunLint},
    {"explain", "show what each module gets, and which rule gave it",
     RunExplain},
    {"presets", "list the recipes that come along, or print one", RunPresets},
    {"diff", "compare what two recipes do", RunDiff},
    {"fingerprint", "print the fingerprint that ranks compare", RunFingerprint},
    {"import", "turn another stack's options or state into ours", RunImport},
    {"inspect", "show a saved state, or compare two", RunInspect},
    {"quantize", "quantize a tensor of a file", RunQuantize},
    {"accuracy", "report what quantizing tensors of files loses", RunAccuracy},
    {"simulate", "replay recorded amaxes under a recipe", RunSimulate},
    {"recommend", "make a recipe that loses least of recorded amaxes",
     RunRecommend},
    {"trace", "convert recorded amaxes, or show what a file of them holds",
     RunTrace, "convert info"},
};

std::string Help() {
  std::string text =
      "Usage: scalekeeper COMMAND [FLAGS] [ARGUMENTS]\n\n"
      "Works with recipes of low-precision training. Where a command takes a\n"
      "recipe FILE, the name of a preset does as well.\n\nCommands:\n";
  size_t width = 0;
  for (const Command& command : kCommands) {
    width = std::max(width, command.name.size());
  }
  for (const Command& command : kCommands) {
    absl::StrAppend(&text, "  ", command.name,
                    std::string(width - command.name.size() + 2, ' '),
                    command.summary, "\n");
  }
  return text + "\n'scalekeeper COMMAND --help' says more.\n";
}

// docs/cli.md: every help text.
std::string Markdown() {
  std::string text = absl::StrCat(
      "# The command scalekeeper\n\nMade of the help texts by `scalekeeper "
      "help --markdown > docs/cli.md`.\n\n## Exit codes\n\n",
      "| code | meaning |\n| --- | --- |\n| ", kExitOk,
      " | done, nothing to "
      "complain of |\n| ",
      kExitFindings,
      " | the input has faults (a recipe, "
      "a trace), or differs (`diff`), or what was made is no better "
      "(`recommend`) |\n| ",
      kExitTrouble,
      " | wrong usage, or a file that "
      "cannot be read or written |\n\nResults go to standard output, "
      "complaints and warnings to standard error. A\nprogress bar appears "
      "there after a second, on a terminal only.\n\n## scalekeeper\n\n```\n",
      Help(), "```\n");
  const auto add = [&](const Command& command, const std::string& sub) {
    std::vector<std::string> args;
    if (!sub.empty()) args.push_back(sub);
    args.emplace_back("--help");
    std::ostringstream out, err;
    command.run(args, out, err);
    absl::StrAppend(&text, "\n## scalekeeper ", command.name,
                    sub.empty() ? "" : " ", sub, "\n\n```\n", out.str(),
                    "```\n");
  };
  for (const Command& command : kCommands) {
    add(command, "");
    for (const auto sub :
         absl::StrSplit(command.subcommands, ' ', absl::SkipEmpty())) {
      add(command, std::string(sub));
    }
  }
  return text;
}

}  // namespace

absl::Span<const Command> Commands() { return kCommands; }

int RunScalekeeper(absl::Span<const std::string> args, std::ostream& out,
                   std::ostream& err) {
  if (args.empty()) {
    err << Help();
    return kExitTrouble;
  }
  const std::string& name = args[0];
  if (name == "--help" || name == "-h" || name == "help") {
    if (args.size() == 1) {
      out << Help();
      return kExitOk;
    }
    if (args[1] == "--markdown") {
      out << Markdown();
      return kExitOk;
    }
    return RunScalekeeper({args[1], "--help"}, out, err);
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(args.subspan(1), out, err);
    names.emplace_back(command.name);
  }
  err << "scalekeeper: unknown command " << Quoted(name)
      << DidYouMean(name, names) << "\nTry 'scalekeeper --help'.\n";
  return kExitTrouble;
}

}  // namespace scalekeeper
