#include "base/file_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace scalekeeper {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

// The path with all links followed; itself where that fails.
std::string Resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(
      realpath(path.c_str(), nullptr), &std::free);
  return real == nullptr ? path : std::string(real.get());
}

bool IsDescriptor(const std::string& path) {
  return absl::StartsWith(path, "/dev/") || absl::StartsWith(path, "/proc/");
}

// Makes the names in the file's folder durable.
absl::Status SyncFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  const internal::Descriptor fd(
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return FileError(errno, folder);
  // EINVAL: a file system that has nothing to do.
  if (fsync(fd.get()) == 0 || errno == EINVAL) return absl::OkStatus();
  return FileError(errno, folder);
}

}  // namespace

absl::Status FileError(int error, const std::string& path) {
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

namespace internal {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    (void)Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() { (void)Close(); }

int Descriptor::Close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || close(fd) == 0 ? 0 : errno;
}

}  // namespace internal

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  internal::Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FileError(errno, path);
  return InputFile(path, std::move(fd));
}

absl::Status InputFile::Read(size_t count, std::string* bytes) {
  const size_t before = bytes->size();
  bytes->resize(before + count);
  size_t got = 0;
  int error = 0;
  while (got < count) {
    const ssize_t n =
        read(fd_.get(), bytes->data() + before + got, count - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error = errno;
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  bytes->resize(before + got);
  bytes_read_ += static_cast<int64_t>(got);
  return error == 0 ? absl::OkStatus() : FileError(error, path_);
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path,
                                              Mode mode) {
  struct stat existing = {};
  const bool exists = stat(path.c_str(), &existing) == 0;
  const std::string target = Resolved(path);
  std::string temporary;
  // Reached through a link under /dev or /proc, even a regular file is a
  // descriptor that somebody holds: it must not be replaced.
  if (mode != Mode::kDirect &&
      !(exists && (!S_ISREG(existing.st_mode) || IsDescriptor(path)))) {
    temporary = absl::StrCat(target, ".tmp.", getpid());
  }
  const std::string& opened = temporary.empty() ? path : temporary;
  internal::Descriptor fd(
      open(opened.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (fd.get() < 0) {
    absl::Status status = FileError(errno, opened);
    if (temporary.empty()) return status;
    return absl::Status(
        status.code(),
        absl::StrCat(path, ": cannot be written (", status.message(), ")"));
  }
  if (!temporary.empty() && exists) {
    (void)fchmod(fd.get(), existing.st_mode & 07777);
  }
  return OutputFile(path, target, std::move(temporary), mode, std::move(fd));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      mode_(other.mode_),
      fd_(std::move(other.fd_)),
      buffer_(std::move(other.buffer_)) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) (void)unlink(temporary_.c_str());
}

absl::Status OutputFile::Append(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status OutputFile::Flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n =
        write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, path_);
    done += static_cast<size_t>(n);
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Close() {
  if (absl::Status status = Flush(); !status.ok()) return status;
  const bool sync = mode_ == Mode::kDurable && !temporary_.empty();
  if (sync && fsync(fd_.get()) != 0) return FileError(errno, path_);
  if (const int error = fd_.Close(); error != 0) return FileError(error, path_);
  if (temporary_.empty()) return absl::OkStatus();
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return FileError(errno, path_);
  }
  temporary_.clear();
  return sync ? SyncFolder(target_) : absl::OkStatus();
}

}  // namespace scalekeeper
