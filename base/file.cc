#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
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

// The path with all links followed; itself where that fails.
std::string Resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(
      realpath(path.c_str(), nullptr), &std::free);
  return real == nullptr ? path : std::string(real.get());
}

bool IsDescriptor(const std::string& path) {
  return absl::StartsWith(path, "/dev/") || absl::StartsWith(path, "/proc/");
}

enum class Durability { kNone, kSynced };

absl::Status WriteTo(const std::string& path, absl::string_view contents,
                     Durability durability) {
  File file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, path);
  if (std::fwrite(contents.data(), 1, contents.size(), file.get()) !=
      contents.size()) {
    return ErrnoStatus(errno, path);
  }
  if (durability == Durability::kSynced &&
      (std::fflush(file.get()) != 0 || fsync(fileno(file.get())) != 0)) {
    return ErrnoStatus(errno, path);
  }
  if (std::fclose(file.release()) != 0) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

// Makes the names in the file's folder durable.
absl::Status SyncFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return ErrnoStatus(errno, folder);
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  (void)close(descriptor);
  // EINVAL: a file system that has nothing to do.
  if (error == 0 || error == EINVAL) return absl::OkStatus();
  return ErrnoStatus(error, folder);
}

absl::Status Write(const std::string& path, absl::string_view contents,
                   Durability durability) {
  struct stat existing = {};
  const bool exists = stat(path.c_str(), &existing) == 0;
  // Reached through a link under /dev or /proc, even a regular file is a
  // descriptor that somebody holds: it must not be replaced.
  const std::string target = Resolved(path);
  if (exists && (!S_ISREG(existing.st_mode) || IsDescriptor(path))) {
    return WriteTo(path, contents, Durability::kNone);
  }
  const std::string temporary = absl::StrCat(target, ".tmp.", getpid());
  absl::Status status = WriteTo(temporary, contents, durability);
  if (!status.ok()) {
    (void)unlink(temporary.c_str());
    return absl::Status(
        status.code(),
        absl::StrCat(path, ": cannot be written (", status.message(), ")"));
  }
  if (exists) (void)chmod(temporary.c_str(), existing.st_mode & 07777);
  if (std::rename(temporary.c_str(), target.c_str()) != 0) {
    status = ErrnoStatus(errno, path);
    (void)unlink(temporary.c_str());
    return status;
  }
  return durability == Durability::kSynced ? SyncFolder(target)
                                           : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes) {
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, path);
  std::string contents;
  char block[1 << 16];
  while (contents.size() < max_bytes) {
    const size_t want = std::min(sizeof(block), max_bytes - contents.size());
    const size_t got = std::fread(block, 1, want, file.get());
    contents.append(block, got);
    if (got < want) break;
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, path);
  return contents;
}

absl::Status WriteFile(const std::string& path, absl::string_view contents) {
  return Write(path, contents, Durability::kNone);
}

absl::Status WriteFileDurably(const std::string& path,
                              absl::string_view contents) {
  return Write(path, contents, Durability::kSynced);
}

bool SameFile(const std::string& a, const std::string& b) {
  struct stat first = {};
  struct stat second = {};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace scalekeeper
