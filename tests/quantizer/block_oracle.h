// A slow second opinion on every scaling with more than one scale, for tests
// only: written from the numerics document, with nothing of numerics/ in it, on
// top of the value tables of tests/testing/oracle.h. Do not make it faster by
// sharing code.
//
// Everything is about one use: a matrix of values in the direction of its codes
// gives codes, one each, and a grid of scales as they are stored.
#ifndef SCALEKEEPER_TESTS_QUANTIZER_BLOCK_ORACLE_H_
#define SCALEKEEPER_TESTS_QUANTIZER_BLOCK_ORACLE_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/testing/oracle.h"

namespace scalekeeper::oracle {

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> v;  // row-major

  float at(int64_t r, int64_t c) const {
    return v[static_cast<size_t>(r * cols + c)];
  }
  Matrix Transposed() const {
    Matrix t{cols, rows, {}};
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = 0; r < rows; ++r) t.v.push_back(at(r, c));
    }
    return t;
  }
};

// The dtype's values: rounds to nearest even, infinity above the largest.
using RoundToDtype = std::function<float(float)>;

enum class ScaleKind { kFloat32, kE8M0, kE4M3 };

struct BlockRules {
  ScaleKind scale = ScaleKind::kFloat32;
  Kind code = Kind::kE4M3;
  int64_t block_rows = 1, block_cols = 128;  // block_cols 0: whole rows
  // kFloat32
  bool power_2 = false;
  float epsilon = 0;
  float overflow = std::numeric_limits<float>::max();
  // kE8M0
  bool floor = false;
  // kE4M3
  bool four_over_six = false;
  bool hadamard = false;
  RoundToDtype round;  // hadamard
  bool stochastic = false;
  std::string name;  // of the slot
  int64_t seed = 0, step = 0;
};

struct BlockResult {
  std::vector<uint8_t> codes;
  int64_t grid_rows = 0, grid_cols = 0;
  std::vector<uint32_t> stored;  // float32 bits, or bytes
  float tensor_inverse = 1;
  std::vector<float> back;  // code times scale, before any inverse transform
  int64_t nonzero = 0, underflow = 0, saturation = 0, non_finite = 0;
};

inline bool IsNan(double x) { return x != x; }

// NaN if there is one, else the largest magnitude.
inline double Amax(const std::vector<float>& values) {
  double amax = 0;
  for (const float x : values) {
    if (IsNan(x)) return std::numeric_limits<double>::quiet_NaN();
    amax = std::max(amax, std::fabs(static_cast<double>(x)));
  }
  return amax;
}

// The inner 16 of every row: signs, then sums and differences of neighbours at
// distance 1, 2, 4, 8, a float32 each, a quarter of it, the dtype.
inline Matrix HadamardOf(const Matrix& x, const RoundToDtype& round) {
  const std::string signs = "+++-+------+-+--";
  Matrix y = x;
  for (size_t at = 0; at < x.v.size(); at += 16) {
    std::array<float, 16> a;
    for (size_t i = 0; i < 16; ++i) {
      a[i] = signs[i] == '-' ? -x.v[at + i] : x.v[at + i];
    }
    for (size_t s = 1; s <= 8; s *= 2) {
      std::array<float, 16> b;
      for (size_t i = 0; i < 16; ++i) {
        b[i] = (i / s) % 2 == 0 ? a[i] + a[i + s] : a[i - s] - a[i];
      }
      a = b;
    }
    for (size_t i = 0; i < 16; ++i) y.v[at + i] = round(a[i] * 0.25f);
  }
  return y;
}

// Salmon et al., section 3.3: round after round with the key's Weyl sequence.
inline uint32_t PhiloxDraw(const BlockRules& rules, int64_t index) {
  uint32_t hash = 0x811C9DC5;
  for (const char c : rules.name) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x01000193;
  }
  const uint64_t seed = static_cast<uint64_t>(rules.seed);
  const uint64_t step = static_cast<uint64_t>(rules.step);
  const uint64_t quad = static_cast<uint64_t>(index / 4);
  uint32_t c0 = static_cast<uint32_t>(step),
           c1 = static_cast<uint32_t>(step >> 32);
  uint32_t c2 = static_cast<uint32_t>(quad),
           c3 = static_cast<uint32_t>(quad >> 32);
  for (uint32_t i = 0; i < 10; ++i) {
    const uint32_t k0 = static_cast<uint32_t>(seed) + i * 0x9E3779B9u;
    const uint32_t k1 =
        (hash ^ static_cast<uint32_t>(seed >> 32)) + i * 0xBB67AE85u;
    const uint64_t p0 = static_cast<uint64_t>(c0) * 0xD2511F53u;
    const uint64_t p1 = static_cast<uint64_t>(c2) * 0xCD9E8D57u;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = n0;
    c1 = static_cast<uint32_t>(p1);
    c2 = n2;
    c3 = static_cast<uint32_t>(p0);
  }
  const uint32_t words[] = {c0, c1, c2, c3};
  return words[index % 4];
}

inline uint8_t StochasticCode(float x, uint32_t draw) {
  if (IsNan(x)) return 7;
  const uint8_t sign = std::signbit(x) ? 8 : 0;
  const double magnitude = std::fabs(static_cast<double>(x));
  if (magnitude >= 6) return static_cast<uint8_t>(sign | 7);
  uint32_t lower = 0;
  while (Decode(Kind::kE2M1, lower + 1) <= magnitude) ++lower;
  const double low = Decode(Kind::kE2M1, lower);
  const double gap = Decode(Kind::kE2M1, lower + 1) - low;
  const bool up = draw < (magnitude - low) / gap * 4294967296.0;
  return static_cast<uint8_t>(sign | (lower + (up ? 1 : 0)));
}

// `tensor_amax`: of kE4M3, from what is quantized (after any transform).
class BlockOracle {
 public:
  BlockOracle(const Matrix& values, const BlockRules& rules)
      : rules_(rules),
        x_(rules.hadamard ? HadamardOf(values, rules.round) : values) {
    if (rules_.block_cols == 0) {
      rules_.block_cols = std::max<int64_t>(x_.cols, 1);
    }
  }

  BlockResult Run() {
    out_.codes.assign(x_.v.size(), 0);
    out_.back.assign(x_.v.size(), 0);
    if (rules_.scale == ScaleKind::kE4M3) MakeTensorScale();
    const int64_t br = rules_.block_rows, bc = rules_.block_cols;
    for (int64_t r = 0; r < x_.rows; r += br) {
      for (int64_t c = 0; c < x_.cols; c += bc) {
        Block(r, std::min(r + br, x_.rows), c, std::min(c + bc, x_.cols));
      }
    }
    out_.grid_rows = (x_.rows + br - 1) / br;
    out_.grid_cols = (x_.cols + bc - 1) / bc;
    return out_;
  }

 private:
  static constexpr float kMax = std::numeric_limits<float>::max();

  float FormatMax() const {
    return rules_.code == Kind::kE4M3   ? 448.0f
           : rules_.code == Kind::kE5M2 ? 57344.0f
                                        : 6.0f;
  }

  void MakeTensorScale() {
    const double amax = Amax(x_.v);
    tensor_scale_ = 1;
    if (std::isfinite(amax) && amax != 0) {
      const float top = rules_.four_over_six ? 256.0f * 6.0f : 448.0f * 6.0f;
      tensor_scale_ = std::min(top / static_cast<float>(amax), kMax);
    }
    out_.tensor_inverse = 1.0f / tensor_scale_;
  }

  struct Scale {
    float scale, inverse;
    uint32_t stored;
  };

  Scale FloatScale(double amax) const {
    float s = 1;
    if (std::isfinite(amax)) {
      float a = static_cast<float>(amax);
      if (a < rules_.epsilon) a = rules_.epsilon;
      if (a != 0) {
        s = FormatMax() / a;
        if (std::isinf(s)) s = rules_.overflow;
        if (rules_.power_2) s = std::ldexp(1.0f, std::ilogb(s));
      }
    }
    const float inverse = 1.0f / s;
    return {s, inverse, BitsOfFloat(inverse)};
  }

  Scale MxScale(double amax) const {
    uint32_t code = 0;
    if (!rules_.floor) {
      code = EncodeE8M0RoundUp(static_cast<float>(amax) * (1.0f / FormatMax()));
    } else if (IsNan(amax)) {
      code = 255;
    } else if (std::isinf(amax)) {
      code = 254;
    } else if (amax != 0) {
      const int emax = rules_.code == Kind::kE4M3 ? 8 : 15;
      code = static_cast<uint32_t>(
          std::clamp(std::ilogb(amax) - emax + 127, 0, 254));
    }
    const double value = DecodeE8M0(code);
    return {static_cast<float>(1.0 / value), static_cast<float>(value), code};
  }

  Scale NvScale(uint32_t byte) const {
    const float s = static_cast<float>(Decode(Kind::kE4M3, byte));
    const float inverse = s * (1.0f / tensor_scale_);
    if (byte == 0) return {0, inverse, byte};
    const float scale = 1.0f / inverse;
    return {std::isinf(scale) ? kMax : scale, inverse, byte};
  }

  Scale NvScaleOf(double amax, int64_t r0, int64_t r1, int64_t c0,
                  int64_t c1) const {
    float product = static_cast<float>(amax) * (tensor_scale_ * (1.0f / 6.0f));
    if (std::isinf(product)) product = kMax;
    const Scale first = NvScale(Encode(Kind::kE4M3, product));
    if (!rules_.four_over_six) return first;
    const Scale wider = NvScale(
        Encode(Kind::kE4M3,
               1.5f * static_cast<float>(Decode(Kind::kE4M3, first.stored))));
    const auto error = [&](const Scale& s) {
      float sum = 0;
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) {
          const float x = x_.at(r, c);
          const float q = static_cast<float>(
              Decode(Kind::kE2M1, Encode(Kind::kE2M1, x * s.scale)));
          const float back = q * s.inverse;
          sum += std::fabs(x - back);
        }
      }
      return sum;
    };
    return error(wider) < error(first) ? wider : first;
  }

  void Block(int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    std::vector<float> values;
    for (int64_t r = r0; r < r1; ++r) {
      for (int64_t c = c0; c < c1; ++c) values.push_back(x_.at(r, c));
    }
    const double amax = Amax(values);
    Scale s = {1, 1, 0};
    if (rules_.scale == ScaleKind::kFloat32) s = FloatScale(amax);
    if (rules_.scale == ScaleKind::kE8M0) s = MxScale(amax);
    if (rules_.scale == ScaleKind::kE4M3) s = NvScaleOf(amax, r0, r1, c0, c1);
    out_.stored.push_back(s.stored);
    for (int64_t r = r0; r < r1; ++r) {
      for (int64_t c = c0; c < c1; ++c) Element(r, c, s);
    }
  }

  void Element(int64_t r, int64_t c, const Scale& s) {
    const int64_t index = r * x_.cols + c;
    const float x = x_.at(r, c);
    const float scaled = x * s.scale;
    const uint32_t code =
        rules_.stochastic ? StochasticCode(scaled, PhiloxDraw(rules_, index))
                          : Encode(rules_.code, scaled);
    const float value = static_cast<float>(Decode(rules_.code, code));
    out_.codes[static_cast<size_t>(index)] = static_cast<uint8_t>(code);
    out_.back[static_cast<size_t>(index)] = value * s.inverse;
    if (x != 0) {
      ++out_.nonzero;
      if (value == 0) ++out_.underflow;
    }
    if (std::fabs(scaled) > FormatMax()) ++out_.saturation;
    if (!std::isfinite(x)) ++out_.non_finite;
  }

  BlockRules rules_;
  const Matrix x_;
  float tensor_scale_ = 1;
  BlockResult out_;
};

}  // namespace scalekeeper::oracle

#endif  // SCALEKEEPER_TESTS_QUANTIZER_BLOCK_ORACLE_H_
