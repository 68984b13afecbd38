#include "tools/flag_set.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace scalekeeper {

FlagSet::FlagSet(std::string command, std::string operands,
                 std::string description)
    : command_(std::move(command)),
      operands_(std::move(operands)),
      description_(std::move(description)) {}

void FlagSet::Add(Flag flag) { flags_.push_back(std::move(flag)); }

void FlagSet::String(std::string name, std::string* value,
                     std::string placeholder, std::string help) {
  Flag flag;
  flag.name = std::move(name);
  flag.placeholder = std::move(placeholder);
  flag.help = std::move(help);
  flag.default_value = *value;
  flag.set = [value](const std::string& text) {
    *value = text;
    return absl::OkStatus();
  };
  Add(std::move(flag));
}

void FlagSet::Strings(std::string name, std::vector<std::string>* values,
                      std::string placeholder, std::string help) {
  Flag flag;
  flag.name = std::move(name);
  flag.placeholder = std::move(placeholder);
  flag.help = std::move(help);
  flag.repeatable = true;
  flag.set = [values](const std::string& text) {
    values->push_back(text);
    return absl::OkStatus();
  };
  Add(std::move(flag));
}

void FlagSet::Int64(std::string name, int64_t* value, std::string placeholder,
                    std::string help) {
  Flag flag;
  flag.name = std::move(name);
  flag.placeholder = std::move(placeholder);
  flag.help = std::move(help);
  flag.default_value = absl::StrCat(*value);
  flag.set = [value, name = flag.name](const std::string& text) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name, ": got ", Quoted(text), ", want an integer of 64 bits"));
    }
    *value = number;
    return absl::OkStatus();
  };
  Add(std::move(flag));
}

void FlagSet::Bool(std::string name, bool* value, std::string help) {
  Flag flag;
  flag.name = std::move(name);
  flag.help = std::move(help);
  flag.default_value = *value ? "true" : "";
  flag.set = [value, name = flag.name](const std::string& text) {
    if (text != "true" && text != "false") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name, ": got ", Quoted(text), ", want true or false"));
    }
    *value = text == "true";
    return absl::OkStatus();
  };
  Add(std::move(flag));
}

void FlagSet::Choice(std::string name, std::string* value,
                     std::vector<std::string> allowed, std::string help) {
  Flag flag;
  flag.name = std::move(name);
  flag.placeholder = absl::StrJoin(allowed, "|");
  flag.help = std::move(help);
  flag.default_value = *value;
  flag.set = [value, name = flag.name,
              allowed = std::move(allowed)](const std::string& text) {
    if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, ": got ", Quoted(text), ", want one of ",
                       absl::StrJoin(allowed, ", ")));
    }
    *value = text;
    return absl::OkStatus();
  };
  Add(std::move(flag));
}

FlagSet::Flag* FlagSet::Find(absl::string_view name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

bool FlagSet::Has(absl::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const Flag& flag) {
    return flag.name == name && flag.given;
  });
}

absl::Status FlagSet::Unknown(absl::string_view name) const {
  std::vector<std::string> names = {"--help"};
  for (const Flag& flag : flags_)
    names.push_back(absl::StrCat("--", flag.name));
  const std::string spelled = absl::StrCat("--", name);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", spelled, DidYouMean(spelled, names)));
}

absl::Status FlagSet::ParseFlags(absl::Span<const std::string> args,
                                 std::vector<std::string>& operands) {
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (arg == "--") {
      operands.insert(operands.end(),
                      args.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                      args.end());
      break;
    }
    if (arg == "-h") arg = "--help";
    if (arg.size() > 1 && arg[0] == '-' && arg[1] != '-') {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", arg, ", want --name"));
    }
    if (!absl::ConsumePrefix(&arg, "--")) {
      operands.push_back(args[i]);
      continue;
    }
    if (arg == "help") {
      help_ = true;
      return absl::OkStatus();
    }
    const size_t equals = arg.find('=');
    const bool has_value = equals != absl::string_view::npos;
    absl::string_view name = arg.substr(0, equals);
    std::string value = has_value ? std::string(arg.substr(equals + 1)) : "";
    if (name == "help") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--help: got ", Quoted(value), ", want --help without a value"));
    }
    Flag* flag = Find(name);
    if (flag == nullptr && !has_value && absl::ConsumePrefix(&name, "no")) {
      flag = Find(name);
      if (flag != nullptr && !flag->placeholder.empty()) flag = nullptr;
      if (flag == nullptr) name = arg.substr(0, equals);
      value = "false";
    } else if (flag != nullptr && !has_value && flag->placeholder.empty()) {
      value = "true";
    }
    if (flag == nullptr) return Unknown(name);
    if (!has_value && !flag->placeholder.empty()) {
      if (++i == args.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--", name, ": got no value, want ", flag->placeholder));
      }
      value = args[i];
    }
    if (flag->given && !flag->repeatable) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " is given twice"));
    }
    flag->given = true;
    SK_RETURN_IF_ERROR(flag->set(value));
  }
  return absl::OkStatus();
}

std::optional<int> FlagSet::Parse(absl::Span<const std::string> args,
                                  std::vector<std::string>& operands,
                                  std::ostream& out, std::ostream& err) {
  const absl::Status status = ParseFlags(args, operands);
  if (!status.ok()) return UsageError(status.message(), err);
  if (help_) {
    out << Help();
    return 0;
  }
  return std::nullopt;
}

int FlagSet::UsageError(absl::string_view message, std::ostream& err) const {
  err << "scalekeeper " << command_ << ": " << message << "\n"
      << "Try 'scalekeeper " << command_ << " --help'.\n";
  return 2;
}

std::string FlagSet::Help() const {
  std::string text = absl::StrCat(
      "Usage: scalekeeper ", command_, flags_.empty() ? "" : " [FLAGS]",
      operands_.empty() ? "" : " ", operands_, "\n\n", description_, "\n");
  std::vector<std::pair<std::string, std::string>> rows;
  rows.reserve(flags_.size() + 1);
  for (const Flag& flag : flags_) {
    rows.emplace_back(
        absl::StrCat("--", flag.name, flag.placeholder.empty() ? "" : "=",
                     flag.placeholder),
        absl::StrCat(flag.help, flag.default_value.empty()
                                    ? ""
                                    : absl::StrCat(" (default: ",
                                                   flag.default_value, ")")));
  }
  rows.emplace_back("--help", "this text");
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  absl::StrAppend(&text, "\nFlags:\n");
  for (const auto& [spelling, help] : rows) {
    absl::StrAppend(&text, "  ", spelling,
                    std::string(width - spelling.size() + 2, ' '), help, "\n");
  }
  return text;
}

}  // namespace scalekeeper
