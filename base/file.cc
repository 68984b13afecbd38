#include "base/file.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/file_stream.h"
#include "base/status_macros.h"

namespace scalekeeper {

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes) {
  constexpr size_t kBlock = size_t{1} << 16;
  SK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  std::string contents;
  while (contents.size() < max_bytes) {
    const size_t want = std::min(kBlock, max_bytes - contents.size());
    const size_t before = contents.size();
    SK_RETURN_IF_ERROR(file.Read(want, &contents));
    if (contents.size() - before < want) break;
  }
  return contents;
}

namespace {

absl::Status Write(const std::string& path, absl::string_view contents,
                   OutputFile::Mode mode) {
  SK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path, mode));
  SK_RETURN_IF_ERROR(file.Append(contents));
  return file.Close();
}

}  // namespace

absl::Status WriteFile(const std::string& path, absl::string_view contents) {
  return Write(path, contents, OutputFile::Mode::kReplace);
}

absl::Status WriteFileDurably(const std::string& path,
                              absl::string_view contents) {
  return Write(path, contents, OutputFile::Mode::kDurable);
}

bool SameFile(const std::string& a, const std::string& b) {
  struct stat first = {};
  struct stat second = {};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace scalekeeper
