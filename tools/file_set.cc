#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tools/quantize.h"

namespace scalekeeper {
namespace {

absl::Status Failed(const std::string& path, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
}

}  // namespace

absl::Status WriteFileSet(const std::string& directory,
                          const std::vector<NamedContents>& files,
                          const std::vector<std::string>& absent) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Failed(directory, error);
  const std::string prefix = absl::StrCat(directory, "/");
  const std::string suffix = absl::StrCat(".tmp.", getpid());

  absl::Status status;
  for (const auto& [name, contents] : files) {
    status = WriteFile(absl::StrCat(prefix, name, suffix), contents);
    if (!status.ok()) break;
  }
  const auto remove = [&](const std::string& name) {
    if (!status.ok()) return;
    std::filesystem::remove(prefix + name, error);
    if (error) status = Failed(prefix + name, error);
  };
  remove(files.back().first);
  for (const std::string& name : absent) remove(name);
  for (const auto& [name, contents] : files) {
    if (!status.ok()) break;
    std::filesystem::rename(absl::StrCat(prefix, name, suffix), prefix + name,
                            error);
    if (error) status = Failed(prefix + name, error);
  }
  if (!status.ok()) {
    for (const auto& [name, contents] : files) {
      std::filesystem::remove(absl::StrCat(prefix, name, suffix), error);
    }
  }
  return status;
}

}  // namespace scalekeeper
