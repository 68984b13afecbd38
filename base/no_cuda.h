// What every CUDA entry point returns in a build without CUDA.
#ifndef SCALEKEEPER_BASE_NO_CUDA_H_
#define SCALEKEEPER_BASE_NO_CUDA_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

inline absl::Status BuiltWithoutCuda(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(what,
                   ": this build has no CUDA; build with --config=cuda (or "
                   "--@scalekeeper//third_party/cuda:enable=true)"));
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_NO_CUDA_H_
