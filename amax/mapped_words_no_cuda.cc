#include "amax/mapped_words.h"
#include "base/no_cuda.h"

namespace scalekeeper {

absl::StatusOr<MappedWords> MappedWords::Allocate(const Device&, int) {
  return BuiltWithoutCuda("words of host memory that a CUDA device maps");
}
MappedWords::~MappedWords() {}  // has none to free

}  // namespace scalekeeper
