// Whether device code that was compiled against NCCL's headers fits the library
// that is loaded.
#ifndef SCALEKEEPER_AMAX_NCCL_VERSION_H_
#define SCALEKEEPER_AMAX_NCCL_VERSION_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "nccl.h"

namespace scalekeeper {

// Why memory cannot be mapped by the library of version `loaded`
// (ncclGetVersion), or "". Its windows are laid out as those of the headers
// only when the versions are equal: other ones were seen to crash.
inline std::string NcclVersionObstacle(int loaded) {
  if (loaded == NCCL_VERSION_CODE) return "";
  return absl::StrCat("NCCL ", loaded, " is loaded, the device code is of ",
                      NCCL_VERSION_CODE);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_NCCL_VERSION_H_
