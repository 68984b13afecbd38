// A subcommand of `scalekeeper`: a function over arguments and two streams, so
// that tests call it without a process.
//
// To add one: declare it in tools/commands.h, write it in a file of its own,
// and add a line to the table in tools/command_table.cc.
//
// Example:
//   int RunPresets(absl::Span<const std::string> args, std::ostream& out,
//                  std::ostream& err) {
//     FlagSet flags("presets", "[NAME]", "Lists the recipes that ...");
//     std::vector<std::string> names;
//     if (auto exit_code = flags.Parse(args, names, out, err)) {
//       return *exit_code;
//     }
//     ...
//     return kExitOk;
//   }
#ifndef SCALEKEEPER_TOOLS_COMMAND_H_
#define SCALEKEEPER_TOOLS_COMMAND_H_

#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scalekeeper {

// Exit codes, as of grep and diff.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFindings = 1;  // the input has faults, or differs
inline constexpr int kExitTrouble = 2;   // wrong usage, a file that fails

// Arguments after the command's name. Results go to `out`, complaints and
// warnings to `err`; returns the exit code.
using CommandFunction = int (*)(absl::Span<const std::string> args,
                                std::ostream& out, std::ostream& err);

struct Command {
  absl::string_view name;
  absl::string_view summary;  // one line for `scalekeeper --help`
  CommandFunction run;
  absl::string_view subcommands = "";  // "convert info"
};

// In the order of the help text.
absl::Span<const Command> Commands();

// The whole program without main(): finds the command and runs it.
int RunScalekeeper(absl::Span<const std::string> args, std::ostream& out,
                   std::ostream& err);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_COMMAND_H_
