// Whole files, read and written.
//
// Errors name the path: NotFound or PermissionDenied when it cannot be opened
// for that reason, FailedPrecondition for a directory, Unavailable otherwise.
#ifndef SCALEKEEPER_BASE_FILE_H_
#define SCALEKEEPER_BASE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

absl::StatusOr<std::string> ReadFile(const std::string& path);

// All or nothing: into a temporary file beside `path`, then renamed over it. A
// path that is no regular file (a pipe, /dev/stdout) is written to as it is.
absl::Status WriteFile(const std::string& path, absl::string_view contents);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_FILE_H_
