// What tests of block scalings share: quantizers of a policy without a recipe,
// memory with guards around it, tensors with edge values in them.
#ifndef SCALEKEEPER_TESTS_QUANTIZER_BLOCK_TESTING_H_
#define SCALEKEEPER_TESTS_QUANTIZER_BLOCK_TESTING_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "gtest/gtest.h"
#include "quantizer/block_quantizer.h"
#include "tests/quantizer/block_oracle.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {

// Fails the test when somebody wrote before or behind a buffer.
class GuardAllocator : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    auto* block = static_cast<uint8_t*>(
        std::aligned_alloc(kAlignment, padded + 2 * kAlignment));
    std::memset(block, kGuard, padded + 2 * kAlignment);
    return block + kAlignment;
  }
  void Deallocate(void* data, size_t bytes) override {
    auto* first = static_cast<uint8_t*>(data);
    for (size_t i = 1; i <= kAlignment; ++i) {
      EXPECT_EQ(*(first - i), kGuard) << "before a buffer of " << bytes;
    }
    for (size_t i = 0; i < kAlignment; ++i) {
      EXPECT_EQ(first[bytes + i], kGuard) << "behind a buffer of " << bytes;
    }
    std::free(first - kAlignment);
  }
  Device device() const override { return Device::Host(); }

 private:
  static constexpr uint8_t kGuard = 0xA5;
};

// A quantizer of a policy, and the words that a RecipeState would lend it.
struct BlockRig {
  explicit BlockRig(const Policy& policy, Usages usages = {true, true},
                    const std::string& name = "m/input")
      : quantizer(name, policy, SlotView{&amax}, &step, /*group=*/nullptr,
                  Device::Host(), usages, &allocator) {
    quantizer.set_counters(&counters);
  }

  QuantizedTensor Quantize(TestTensor& x) {
    absl::StatusOr<QuantizedTensor> q = quantizer.Quantize(x.view(), Stream{});
    if (!q.ok()) {
      ADD_FAILURE() << q.status();
      std::abort();
    }
    return *std::move(q);
  }
  // As float32, from what the tensor has.
  std::vector<float> Dequantize(const QuantizedTensor& q) {
    TestTensor out(DType::kF32, q.rows, q.cols);
    EXPECT_THAT(quantizer.Dequantize(q, out.view(), Stream{}), IsOk());
    std::vector<float> values;
    for (int64_t r = 0; r < q.rows; ++r) {
      for (int64_t c = 0; c < q.cols; ++c) values.push_back(out.at(r, c));
    }
    return values;
  }

  GuardAllocator allocator;
  uint32_t amax = 0;
  int64_t step = 5;
  kernels::CastCounters counters;
  BlockQuantizer quantizer;
};

inline Policy BlockPolicy(Scaling scaling, Format format) {
  Policy policy;
  policy.scaling = scaling;
  policy.format = format;
  return policy;
}

// Codes one by one, whether packed or not.
inline std::vector<uint8_t> UnpackedCodes(const QuantizedTensor& q,
                                          bool column_wise) {
  const QuantizedData& data = column_wise ? *q.column_wise : *q.row_wise;
  const int64_t rows = column_wise ? q.cols : q.rows;
  const int64_t cols = column_wise ? q.rows : q.cols;
  const uint8_t* bytes = data.codes.as<uint8_t>();
  std::vector<uint8_t> codes;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      if (q.format == Format::kE2M1) {
        const uint8_t byte = bytes[r * ((cols + 1) / 2) + c / 2];
        codes.push_back(c % 2 == 0 ? byte & 0xF : byte >> 4);
      } else {
        codes.push_back(bytes[r * cols + c]);
      }
    }
    if (q.format == Format::kE2M1 && cols % 2 == 1) {
      EXPECT_EQ(bytes[(r + 1) * ((cols + 1) / 2) - 1] >> 4, 0) << "padding";
    }
  }
  return codes;
}

// Compact scales as stored: float32 bits, or bytes.
inline std::vector<uint32_t> StoredScales(const QuantizedData& data) {
  std::vector<uint32_t> stored;
  const bool words = data.scales.type == ScaleType::kFloat;
  const size_t count = static_cast<size_t>(data.scales.rows * data.scales.cols);
  EXPECT_EQ(data.scale_inv.size(), count * (words ? 4 : 1));
  for (size_t i = 0; i < count; ++i) {
    stored.push_back(words ? data.scale_inv.as<uint32_t>()[i]
                           : data.scale_inv.as<uint8_t>()[i]);
  }
  return stored;
}

enum class Fill {
  kPlain,  // magnitudes over 13 binades, some zeros
  kWide,   // over all binades of float32, whole blocks of zeros
  kWild,   // kPlain with rare infinities and NaNs
};

// The value at (r, c) before it is rounded to the dtype.
inline float FillValue(Fill fill, int64_t r, int64_t c) {
  const auto mix = [](uint64_t x) {  // splitmix64
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  };
  const uint64_t h =
      mix(static_cast<uint64_t>(r) * 1000003u + static_cast<uint64_t>(c) + 1);
  const uint64_t block = mix(static_cast<uint64_t>(r / 16) * 7919u +
                             static_cast<uint64_t>(c / 16));
  if (fill == Fill::kWild) {
    if (h % 499 == 0) return std::numeric_limits<float>::quiet_NaN();
    if (h % 499 == 1) return std::numeric_limits<float>::infinity();
    if (h % 499 == 2) return -std::numeric_limits<float>::infinity();
  }
  if (fill == Fill::kWide && block % 11 == 0) return h % 2 ? 0.0f : -0.0f;
  if (h % 23 == 3) return h % 2 ? 0.0f : -0.0f;
  const float fraction =
      1.0f + static_cast<float>((h >> 20) & 0xFFFF) / 65536.0f;
  const int wide = static_cast<int>(block % 277) - 149;
  const int plain = static_cast<int>(h >> 40) % 8 + static_cast<int>(block % 6);
  const int exponent =
      fill == Fill::kWide ? wide - static_cast<int>(h % 4) : plain - 6;
  const float value = std::ldexp(fraction, exponent);
  return h & 0x10000 ? -value : value;
}

inline TestTensor FillTensor(Fill fill, DType dtype, int64_t rows, int64_t cols,
                             Layout layout = Layout::kContiguous) {
  return TestTensor::Of(
      dtype, rows, cols,
      [fill](int64_t r, int64_t c) { return FillValue(fill, r, c); }, layout);
}

inline oracle::Matrix ValuesOf(const TestTensor& x, int64_t rows,
                               int64_t cols) {
  oracle::Matrix m{rows, cols, {}};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) m.v.push_back(x.at(r, c));
  }
  return m;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_QUANTIZER_BLOCK_TESTING_H_
