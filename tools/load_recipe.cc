#include "tools/load_recipe.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "tools/command.h"

namespace scalekeeper {

int ReportStatus(const absl::Status& status, std::ostream& err) {
  if (status.ok()) return kExitOk;
  err << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? kExitFindings : kExitTrouble;
}

absl::StatusOr<std::vector<std::string>> ReadModuleNames(
    const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  absl::flat_hash_map<std::string, size_t> line_of;
  std::string line;
  size_t number = 0;
  while (std::getline(file, line)) {
    ++number;
    absl::string_view name = line;
    if (number == 1) absl::ConsumePrefix(&name, "\xEF\xBB\xBF");
    name = absl::StripAsciiWhitespace(name);
    if (name.empty() || name[0] == '#') continue;
    if (FirstInvalidUtf8(name) != name.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ":", number, ": error: not UTF-8 text"));
    }
    const auto [at, inserted] = line_of.emplace(std::string(name), number);
    if (!inserted) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ":", number, ": error: module ", Quoted(name),
                       " is on line ", at->second, " already"));
    }
    names.emplace_back(name);
  }
  if (!file.eof()) {
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  if (names.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ":1: error: no module names"));
  }
  return names;
}

}  // namespace scalekeeper
