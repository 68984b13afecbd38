#include <vector>

#include "absl/strings/str_cat.h"
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
    {"quantize", "quantize a tensor of a file", RunQuantize},
    {"simulate", "replay recorded amaxes under a recipe", RunSimulate},
    {"trace", "convert recorded amaxes, or show what a file of them holds",
     RunTrace},
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
