#include "base/dtype.h"

namespace scalekeeper {

size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kUint8:
      return 1;
  }
  return 0;
}

absl::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kUint8:
      return "uint8";
  }
  return "unknown";
}

float MaxFinite(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 3.4028234663852886e38f;
    case DType::kBF16:
      return 3.3895313892515355e38f;
    case DType::kF16:
      return 65504.0f;
    case DType::kUint8:
      return 255.0f;
  }
  return 0;
}

}  // namespace scalekeeper
