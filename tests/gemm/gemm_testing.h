// What GEMM tests and benchmarks multiply, on any device.
#ifndef SCALEKEEPER_TESTS_GEMM_GEMM_TESTING_H_
#define SCALEKEEPER_TESTS_GEMM_GEMM_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "numerics/format.h"
#include "quantizer/quantized_tensor.h"
#include "tests/testing/device_tensor.h"

namespace scalekeeper {

// rows x cols codes, row-major.
struct Codes {
  int64_t rows = 0;
  int64_t cols = 0;
  Format format = Format::kE4M3;
  std::vector<uint8_t> bytes;

  uint8_t& at(int64_t r, int64_t c) {
    return bytes[static_cast<size_t>(r * cols + c)];
  }
  Codes Transposed() const {
    Codes t = {cols, rows, format, std::vector<uint8_t>(bytes.size())};
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        t.at(c, r) = bytes[static_cast<size_t>(r * cols + c)];
      }
    }
    return t;
  }
};

// A hash of the position: the same numbers everywhere.
inline uint32_t HashAt(int64_t r, int64_t c, uint32_t seed) {
  uint64_t x = static_cast<uint64_t>(r) * 0x9E3779B97F4A7C15u +
               static_cast<uint64_t>(c) * 0xC2B2AE3D27D4EB4Fu + seed;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  return static_cast<uint32_t>(x);
}

// -2, -1, 0, 1 or 2: sums of products of thousands are exact everywhere.
inline float SmallInteger(int64_t r, int64_t c, uint32_t seed) {
  return static_cast<float>(HashAt(r, c, seed) % 5) - 2.0f;
}

// Uniform in [-1, 1].
inline float RandomValue(int64_t r, int64_t c, uint32_t seed) {
  return static_cast<float>(HashAt(r, c, seed)) * 0x1p-31f - 1.0f;
}

using ValueAt = float (*)(int64_t r, int64_t c, uint32_t seed);

inline Codes CodesOf(int64_t rows, int64_t cols, Format format, ValueAt value,
                     uint32_t seed) {
  Codes codes = {rows, cols, format, {}};
  codes.bytes.reserve(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      codes.bytes.push_back(Encode(format, value(r, c, seed)));
    }
  }
  return codes;
}

// The per-tensor quantized tensor that has these codes.
inline absl::StatusOr<QuantizedTensor> Quantized(Device device,
                                                 const Codes& codes,
                                                 float scale_inv,
                                                 Usages usages) {
  QuantizedTensor tensor;
  tensor.rows = codes.rows;
  tensor.cols = codes.cols;
  tensor.scaling = Scaling::kDelayed;
  tensor.format = codes.format;
  tensor.device = device;
  std::vector<uint8_t> scale_bytes(sizeof(scale_inv));
  std::memcpy(scale_bytes.data(), &scale_inv, sizeof(scale_inv));
  const auto use = [&](const Codes& c) -> absl::StatusOr<QuantizedData> {
    QuantizedData data;
    SK_ASSIGN_OR_RETURN(data.codes, Upload(device, c.bytes));
    SK_ASSIGN_OR_RETURN(data.scale_inv, Upload(device, scale_bytes));
    data.scales.data = data.scale_inv.data();
    data.scales.rows = data.scales.cols = data.scales.row_stride = 1;
    data.scales.block_rows = std::max<int64_t>(c.rows, 1);
    data.scales.block_cols = std::max<int64_t>(c.cols, 1);
    return data;
  };
  if (usages.row_wise) {
    SK_ASSIGN_OR_RETURN(tensor.row_wise, use(codes));
  }
  if (usages.column_wise) {
    SK_ASSIGN_OR_RETURN(tensor.column_wise, use(codes.Transposed()));
  }
  return tensor;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_GEMM_GEMM_TESTING_H_
