#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace scalekeeper {
namespace {

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

absl::Status ErrnoStatus(int error, const std::string& path) {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (error == ENOENT) code = absl::StatusCode::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) {
    code = absl::StatusCode::kPermissionDenied;
  }
  if (error == EISDIR || error == ENOTDIR) {
    code = absl::StatusCode::kFailedPrecondition;
  }
  return absl::Status(code, absl::StrCat(path, ": ", std::strerror(error)));
}

absl::Status WriteTo(const std::string& path, absl::string_view contents) {
  File file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, path);
  if (std::fwrite(contents.data(), 1, contents.size(), file.get()) !=
      contents.size()) {
    return ErrnoStatus(errno, path);
  }
  if (std::fclose(file.release()) != 0) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, path);
  std::string contents;
  char block[1 << 16];
  while (const size_t got = std::fread(block, 1, sizeof(block), file.get())) {
    contents.append(block, got);
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, path);
  return contents;
}

absl::Status WriteFile(const std::string& path, absl::string_view contents) {
  struct stat existing = {};
  if (stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    return WriteTo(path, contents);
  }
  const std::string temporary = absl::StrCat(path, ".tmp.", getpid());
  absl::Status status = WriteTo(temporary, contents);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, path);
  }
  if (!status.ok()) (void)unlink(temporary.c_str());
  return status;
}

}  // namespace scalekeeper
