// An error with the place in front of it; for amax/'s own sources.
#ifndef SCALEKEEPER_AMAX_ANNOTATE_H_
#define SCALEKEEPER_AMAX_ANNOTATE_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

// "where: message"; OkStatus stays.
inline absl::Status Annotate(const absl::Status& status,
                             absl::string_view where) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_ANNOTATE_H_
