// A StateImage as bytes, for a stack's own checkpointer, and as a file.
//
// Layout, all integers little-endian:
//   bytes 0..7    "SKSTATE" and a zero byte
//   8..11         schema version (kStateSchemaVersion)
//   12..19        length of what follows the header
//   20..23        CRC-32C of bytes 0..19 and of all that follows
//   24..          State of proto/state.proto
// The same image gives the same bytes, and images of one state the same number
// of bytes at every step: about 4 bytes per word of the windows, the names, and
// 60 bytes per slot.
//
// Threads: any. Nothing is repaired: bytes that are not whole are an error.
//
// Example:
//   SK_ASSIGN_OR_RETURN(StateImage image, SaveState(*state, stream));
//   SK_RETURN_IF_ERROR(WriteStateFile("step1000/rank3.state", image));
//   ...
//   SK_ASSIGN_OR_RETURN(image, ReadStateFile("step1000/rank3.state"));
//   SK_ASSIGN_OR_RETURN(LoadReport report,
//                       LoadState(image, LoadOptions(), stream, state));
#ifndef SCALEKEEPER_AMAX_CHECKPOINT_H_
#define SCALEKEEPER_AMAX_CHECKPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "amax/state_image.h"

namespace scalekeeper {

// InvalidArgument where ValidateImage says so; ResourceExhausted from 2 GiB on.
absl::StatusOr<std::string> EncodeState(const StateImage& image);

// InvalidArgument for bytes of something else; FailedPrecondition for a schema
// version that this program does not know; DataLoss for bytes that are cut off
// or changed, with what does not fit.
absl::StatusOr<StateImage> DecodeState(absl::string_view bytes);

// Replaces the file as a whole: a process or machine that stops meanwhile
// leaves the old file or the new one. Synchronized with the disk on return.
absl::Status WriteStateFile(const std::string& path, const StateImage& image);

// As DecodeState, or as ReadFile (base/file.h); errors name the path.
absl::StatusOr<StateImage> ReadStateFile(const std::string& path);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_CHECKPOINT_H_
