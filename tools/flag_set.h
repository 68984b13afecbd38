// Flags of one subcommand: --name=value or --name value, --bool, --nobool,
// --help; everything else is positional, and so is all after "--".
//
// Order of calls: constructor, String / Int64 / Bool / Choice for each flag,
// then one Parse. The variables must outlive Parse and hold the defaults.
// Threads: none. Outcome: an exit code when the command must not go on.
//
// Example:
//   FlagSet flags("explain", "FILE", "Shows what each module gets.");
//   std::string modules;
//   int64_t step = 0;
//   flags.String("modules", &modules, "NAMES.txt", "one module name a line");
//   flags.Int64("step", &step, "N", "training step");
//   std::vector<std::string> files;
//   if (auto exit_code = flags.Parse(args, files, out, err)) return *exit_code;
//   if (files.size() != 1) return flags.UsageError("want one FILE", err);
//
// A wrong flag goes to `err`, with exit code 2:
//   scalekeeper explain: unknown flag --module, did you mean "--modules"?
//   Try 'scalekeeper explain --help'.
#ifndef SCALEKEEPER_TOOLS_FLAG_SET_H_
#define SCALEKEEPER_TOOLS_FLAG_SET_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scalekeeper {

class FlagSet {
 public:
  // `operands` is the usage of what is positional, as "FILE..."; `description`
  // may have several lines.
  FlagSet(std::string command, std::string operands, std::string description);

  // `placeholder` stands for the value in the help text.
  void String(std::string name, std::string* value, std::string placeholder,
              std::string help);
  // May be given several times; every value is appended.
  void Strings(std::string name, std::vector<std::string>* values,
               std::string placeholder, std::string help);
  void Int64(std::string name, int64_t* value, std::string placeholder,
             std::string help);
  void Bool(std::string name, bool* value, std::string help);
  // A string out of `allowed`.
  void Choice(std::string name, std::string* value,
              std::vector<std::string> allowed, std::string help);

  // Sets the variables and appends what is positional. Returns an exit code
  // when the command is done: 0 after --help (on `out`), 2 after a complaint
  // (on `err`).
  std::optional<int> Parse(absl::Span<const std::string> args,
                           std::vector<std::string>& operands,
                           std::ostream& out, std::ostream& err);

  // Whether the flag was among the arguments.
  bool Has(absl::string_view name) const;

  // Complains about what only the command can check; returns exit code 2.
  int UsageError(absl::string_view message, std::ostream& err) const;

  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string placeholder;  // empty for a bool
    std::string help;
    std::string default_value;
    std::function<absl::Status(const std::string&)> set;
    bool repeatable = false;
    bool given = false;
  };

  void Add(Flag flag);
  Flag* Find(absl::string_view name);
  absl::Status ParseFlags(absl::Span<const std::string> args,
                          std::vector<std::string>& operands);
  absl::Status Unknown(absl::string_view name) const;

  const std::string command_;
  const std::string operands_;
  const std::string description_;
  std::vector<Flag> flags_;
  bool help_ = false;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TOOLS_FLAG_SET_H_
