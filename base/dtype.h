// Element types of tensors that cross the API.
#ifndef SCALEKEEPER_BASE_DTYPE_H_
#define SCALEKEEPER_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace scalekeeper {

// kUint8 holds codes and raw scale bytes; the others are high precision.
enum class DType { kF32, kBF16, kF16, kUint8 };

// Bytes per element.
size_t SizeOf(DType dtype);

// "float32", "bfloat16", "float16", "uint8".
absl::string_view Name(DType dtype);

// The largest finite value (255 for kUint8).
float MaxFinite(DType dtype);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_DTYPE_H_
