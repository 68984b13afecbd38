// Operands of every scaling for GEMM tests, made without the quantizers: codes
// and scales by position, and the values that they stand for.
#ifndef SCALEKEEPER_TESTS_GEMM_SCALED_TESTING_H_
#define SCALEKEEPER_TESTS_GEMM_SCALED_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "numerics/format.h"
#include "quantizer/quantized_tensor.h"
#include "tests/gemm/gemm_testing.h"
#include "tests/testing/device_tensor.h"

namespace scalekeeper {

// A kind of operand; blocks are of codes, 0 is the whole row.
struct ScaledKind {
  const char* name;
  Scaling scaling;
  Format format;
  int64_t block_rows;
  int64_t block_cols;
  ScaleType type = ScaleType::kFloat;
};

inline constexpr ScaledKind kCurrentKind = {"current", Scaling::kCurrent,
                                            Format::kE4M3, 0, 0};
inline constexpr ScaledKind kRowwiseKind = {"rowwise", Scaling::kRowwise,
                                            Format::kE4M3, 1, 0};
inline constexpr ScaledKind kRowwiseE5M2Kind = {
    "rowwise E5M2", Scaling::kRowwise, Format::kE5M2, 1, 0};
inline constexpr ScaledKind k1x128Kind = {"1x128", Scaling::kBlock,
                                          Format::kE4M3, 1, 128};
inline constexpr ScaledKind k1x128E5M2Kind = {"1x128 E5M2", Scaling::kBlock,
                                              Format::kE5M2, 1, 128};
inline constexpr ScaledKind k128x128Kind = {"128x128", Scaling::kBlock,
                                            Format::kE4M3, 128, 128};
inline constexpr ScaledKind kMxfp8Kind = {
    "mxfp8", Scaling::kMxfp8, Format::kE4M3, 1, 32, ScaleType::kE8M0};
inline constexpr ScaledKind kMxfp8SquareKind = {
    "mxfp8 32x32", Scaling::kMxfp8, Format::kE4M3, 32, 32, ScaleType::kE8M0};
inline constexpr ScaledKind kNvfp4Kind = {
    "nvfp4", Scaling::kNvfp4, Format::kE2M1, 1, 16, ScaleType::kE4M3};
inline constexpr ScaledKind kNvfp4SquareKind = {
    "nvfp4 16x16", Scaling::kNvfp4, Format::kE2M1, 16, 16, ScaleType::kE4M3};
inline constexpr ScaledKind kFloatKinds[] = {kCurrentKind,     kRowwiseKind,
                                             kRowwiseE5M2Kind, k1x128Kind,
                                             k128x128Kind,     k1x128E5M2Kind};
inline constexpr ScaledKind kMicroKinds[] = {kMxfp8Kind, kMxfp8SquareKind,
                                             kNvfp4Kind, kNvfp4SquareKind};

// Which copy of which tensor holds an operand.
enum class Held {
  kRowWise,     // the row-wise data of an outer x K tensor
  kColumnWise,  // the column-wise data of a K x outer tensor
  kOtherWay,    // the row-wise data of a K x outer tensor: square blocks only
};

// outer x K, whichever way it is held.
class ScaledOperand {
 public:
  // `exact_scales`: powers of two near 1, so that sums of SmallInteger are
  // exact everywhere.
  ScaledOperand(const ScaledKind& kind, int64_t outer, int64_t depth,
                uint32_t seed, ValueAt value = SmallInteger,
                bool exact_scales = true)
      : kind_(kind),
        outer_(outer),
        depth_(depth),
        seed_(seed),
        value_(value),
        exact_scales_(exact_scales) {}

  double Value(int64_t o, int64_t k) const {
    return static_cast<double>(Decode(kind_.format, CodeOf(o, k))) *
           static_cast<double>(ScaleOf(o, k));
  }
  float ScaleOf(int64_t o, int64_t k) const {
    const int64_t i = kind_.block_rows == 0 ? 0 : o / kind_.block_rows;
    const int64_t j = kind_.block_cols == 0 ? 0 : k / kind_.block_cols;
    switch (kind_.type) {
      case ScaleType::kFloat:
        return FloatScale(i, j);
      case ScaleType::kE8M0:
        return std::ldexp(1.0f, ByteScale(i, j) - 127);
      case ScaleType::kE4M3:
        return Decode(Format::kE4M3, ByteScale(i, j)) * kTensorScaleInv;
    }
    return 0;
  }

  // Scales in 128 x 4 tiles if `tiled`, else as the GEMMs of sm_90 want them.
  absl::StatusOr<QuantizedTensor> Make(Device device,
                                       Held held = Held::kRowWise,
                                       bool tiled = false) const {
    QuantizedTensor tensor;
    tensor.rows = held == Held::kRowWise ? outer_ : depth_;
    tensor.cols = held == Held::kRowWise ? depth_ : outer_;
    tensor.scaling = kind_.scaling;
    tensor.format = kind_.format;
    tensor.device = device;
    SK_ASSIGN_OR_RETURN(QuantizedData data,
                        MakeUse(device, held == Held::kOtherWay, tiled));
    if (held == Held::kColumnWise) {
      tensor.column_wise = std::move(data);
    } else {
      tensor.row_wise = std::move(data);
    }
    return tensor;
  }

  const ScaledKind& kind() const { return kind_; }

 private:
  static constexpr float kTensorScaleInv = 0.25f;

  uint8_t CodeOf(int64_t o, int64_t k) const {
    return Encode(kind_.format, value_(o, k, seed_));
  }
  float FloatScale(int64_t i, int64_t j) const {
    const uint32_t hash = HashAt(i, j, seed_ + 100);
    return exact_scales_ ? std::ldexp(1.0f, static_cast<int>(hash % 4) - 2)
                         : 0.01f + static_cast<float>(hash) * 0x1p-32f;
  }
  uint8_t ByteScale(int64_t i, int64_t j) const {
    const int shift = static_cast<int>(HashAt(i, j, seed_ + 100) % 4) - 2;
    if (kind_.type == ScaleType::kE8M0) {
      return static_cast<uint8_t>(127 + shift);
    }
    const float scale = std::ldexp(1.0f, shift) * (exact_scales_ ? 1 : 1.625f);
    return Encode(Format::kE4M3, scale);
  }

  absl::StatusOr<QuantizedData> MakeUse(Device device, bool other_way,
                                        bool tiled) const {
    const int64_t rows = other_way ? depth_ : outer_;
    const int64_t cols = other_way ? outer_ : depth_;
    QuantizedData data;
    const bool packed = kind_.format == Format::kE2M1;
    const int64_t row_bytes = packed ? (cols + 1) / 2 : cols;
    std::vector<uint8_t> codes(static_cast<size_t>(rows * row_bytes));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const uint8_t code = other_way ? CodeOf(c, r) : CodeOf(r, c);
        const int64_t at = r * row_bytes + (packed ? c / 2 : c);
        codes[static_cast<size_t>(at)] =
            static_cast<uint8_t>(codes[static_cast<size_t>(at)] |
                                 (packed && c % 2 == 1 ? code << 4 : code));
      }
    }
    SK_ASSIGN_OR_RETURN(data.codes, Upload(device, codes));

    BlockScales& scales = data.scales;
    scales.type = kind_.type;
    // Square blocks: the same either way.
    scales.block_rows =
        kind_.block_rows == 0 ? std::max<int64_t>(rows, 1) : kind_.block_rows;
    scales.block_cols =
        kind_.block_cols == 0 ? std::max<int64_t>(cols, 1) : kind_.block_cols;
    const auto blocks = [](int64_t n, int64_t of) { return (n + of - 1) / of; };
    scales.rows = blocks(rows, scales.block_rows);
    scales.cols = kind_.block_cols == 0 ? 1 : blocks(cols, scales.block_cols);
    if (kind_.scaling == Scaling::kCurrent) scales.rows = 1;
    int64_t entries = 0;
    if (tiled) {
      scales.layout = ScaleLayout::kTiled;
      entries = blocks(rows, 128) * blocks(scales.cols, 4) * 512;
    } else if (kind_.block_rows == 1 && kind_.type == ScaleType::kFloat) {
      scales.row_stride = 1;
      scales.col_stride = rows;
      entries = rows * scales.cols;
    } else {
      scales.row_stride =
          kind_.block_rows == 128 ? blocks(scales.cols, 4) * 4 : scales.cols;
      entries = scales.rows * scales.row_stride;
    }
    const size_t size = kind_.type == ScaleType::kFloat ? 4 : 1;
    std::vector<uint8_t> bytes(static_cast<size_t>(entries) * size);
    const int64_t grid_rows = tiled ? rows : scales.rows;
    for (int64_t i = 0; i < grid_rows; ++i) {
      for (int64_t j = 0; j < scales.cols; ++j) {
        const int64_t block_row = tiled ? i / scales.block_rows : i;
        const int64_t o = other_way ? j : block_row;
        const int64_t k = other_way ? block_row : j;
        uint8_t* to = bytes.data() +
                      static_cast<size_t>(ScaleOffset(scales, i, j)) * size;
        if (kind_.type == ScaleType::kFloat) {
          const float scale = FloatScale(o, k);
          std::memcpy(to, &scale, sizeof(scale));
        } else {
          *to = ByteScale(o, k);
        }
      }
    }
    SK_ASSIGN_OR_RETURN(data.scale_inv, Upload(device, bytes));
    scales.data = data.scale_inv.data();
    if (kind_.type == ScaleType::kE4M3) {
      std::vector<uint8_t> word(4);
      std::memcpy(word.data(), &kTensorScaleInv, 4);
      SK_ASSIGN_OR_RETURN(data.tensor_scale_inv, Upload(device, word));
      scales.tensor_scale_inv = data.tensor_scale_inv.as<float>();
    }
    return data;
  }

  const ScaledKind kind_;
  const int64_t outer_, depth_;
  const uint32_t seed_;
  const ValueAt value_;
  const bool exact_scales_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_GEMM_SCALED_TESTING_H_
