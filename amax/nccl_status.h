// ncclResult_t as absl::Status.
#ifndef SCALEKEEPER_AMAX_NCCL_STATUS_H_
#define SCALEKEEPER_AMAX_NCCL_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nccl.h"

namespace scalekeeper {

// `call` is the call that returned `result`; `comm` may be null. ncclInProgress
// is no error.
inline absl::Status NcclStatus(ncclResult_t result, absl::string_view call,
                               ncclComm_t comm) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (result) {
    case ncclSuccess:
    case ncclInProgress:
      return absl::OkStatus();
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      code = absl::StatusCode::kInvalidArgument;
      break;
    case ncclRemoteError:
    case ncclSystemError:
      code = absl::StatusCode::kUnavailable;
      break;
    default:
      break;
  }
  const char* const last = ncclGetLastError(comm);
  return absl::Status(code,
                      absl::StrCat(call, ": ", ncclGetErrorString(result), " (",
                                   static_cast<int>(result), ")",
                                   last == nullptr || *last == '\0' ? "" : ": ",
                                   last == nullptr ? "" : last));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_NCCL_STATUS_H_
