// Whole files, read and written.
//
// Errors name the path: NotFound or PermissionDenied when it cannot be opened
// for that reason, FailedPrecondition for a directory, Unavailable otherwise.
#ifndef SCALEKEEPER_BASE_FILE_H_
#define SCALEKEEPER_BASE_FILE_H_

#include <cstddef>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

// The file's bytes, at most `max_bytes` of them.
absl::StatusOr<std::string> ReadFile(
    const std::string& path,
    size_t max_bytes = std::numeric_limits<size_t>::max());

// All or nothing: into a temporary file beside the target, then renamed over
// it. Links are followed (the target is replaced, the link stays), the target's
// mode is kept. What is no regular file (a pipe, /dev/stdout) is written to as
// it is.
absl::Status WriteFile(const std::string& path, absl::string_view contents);

// The same, and on stable storage when it returns: what was there before, or
// all of the new contents, whatever ends the process or the machine meanwhile.
// A process that is killed may leave its temporary file ("<path>.tmp.<pid>").
absl::Status WriteFileDurably(const std::string& path,
                              absl::string_view contents);

// Whether both paths exist and name the same file.
bool SameFile(const std::string& a, const std::string& b);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_FILE_H_
