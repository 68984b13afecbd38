// Files that are read and written in pieces, with errors that name the path
// (codes as in base/file.h).
//
// Threads: one at a time. Ownership: the descriptor is closed with the object.
//
// Example:
//   SK_ASSIGN_OR_RETURN(OutputFile out,
//                       OutputFile::Create(path, OutputFile::Mode::kReplace));
//   SK_RETURN_IF_ERROR(out.Append("step,loss\n"));
//   SK_RETURN_IF_ERROR(out.Close());   // without it, `path` stays as it was
#ifndef SCALEKEEPER_BASE_FILE_STREAM_H_
#define SCALEKEEPER_BASE_FILE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

// The error of a call on `path` that set errno to `error`.
absl::Status FileError(int error, const std::string& path);

namespace internal {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  // 0, or what close() set errno to.
  int Close();

 private:
  int fd_ = -1;
};

}  // namespace internal

class InputFile {
 public:
  static absl::StatusOr<InputFile> Open(const std::string& path);

  // Appends up to `count` bytes to `bytes`; fewer only at the end of the file.
  absl::Status Read(size_t count, std::string* bytes);

  const std::string& path() const { return path_; }
  int64_t bytes_read() const { return bytes_read_; }

 private:
  InputFile(std::string path, internal::Descriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  internal::Descriptor fd_;
  int64_t bytes_read_ = 0;
};

class OutputFile {
 public:
  enum class Mode {
    // What was written lies in the file at once, also after a crash.
    kDirect,
    // All or nothing: into a temporary file beside the target, renamed over it
    // by Close; the target's mode is kept, links are followed. What is no
    // regular file (a pipe, /dev/stdout) is written to directly.
    kReplace,
    // kReplace, and on stable storage when Close returns.
    kDurable,
  };
  static absl::StatusOr<OutputFile> Create(const std::string& path, Mode mode);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) = delete;
  // Drops a temporary file that was not closed.
  ~OutputFile();

  // Buffered.
  absl::Status Append(absl::string_view bytes);
  absl::Status Flush();
  absl::Status Close();

  const std::string& path() const { return path_; }

 private:
  OutputFile(std::string path, std::string target, std::string temporary,
             Mode mode, internal::Descriptor fd)
      : path_(std::move(path)),
        target_(std::move(target)),
        temporary_(std::move(temporary)),
        mode_(mode),
        fd_(std::move(fd)) {}

  std::string path_;       // as given, for messages
  std::string target_;     // with links followed
  std::string temporary_;  // empty: written directly
  Mode mode_;
  internal::Descriptor fd_;
  std::string buffer_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_FILE_STREAM_H_
