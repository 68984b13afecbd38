#include "amax/side_stream.h"
#include "base/no_cuda.h"

namespace scalekeeper {
namespace {

absl::Status NoCuda() { return BuiltWithoutCuda("a stream of a CUDA device"); }

}  // namespace

absl::StatusOr<SideStream> SideStream::Create(const Device&) {
  return NoCuda();
}
absl::Status SideStream::Fork(Stream) { return NoCuda(); }
absl::Status SideStream::Join(Stream) { return NoCuda(); }
SideStream::~SideStream() {}  // has none to destroy

}  // namespace scalekeeper
