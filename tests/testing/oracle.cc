#include "tests/testing/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace scalekeeper::oracle {
namespace {

struct Layout {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint32_t max_code;  // the largest finite magnitude
  uint32_t nan_code;
  bool infinity;   // an all-ones exponent is infinity / NaN
  bool saturates;  // else overflows to infinity
};

const Layout& LayoutOf(Kind kind) {
  static const std::array<Layout, 5> layouts = {{
      {4, 3, 7, 0x7E, 0x7F, false, true},
      {5, 2, 15, 0x7B, 0x7F, true, true},
      {2, 1, 1, 0x7, 0x7, false, true},
      {8, 7, 127, 0x7F7F, 0x7FC0, true, false},
      {5, 10, 15, 0x7BFF, 0x7E00, true, false},
  }};
  return layouts[static_cast<size_t>(kind)];
}

double Magnitude(const Layout& layout, uint32_t code) {
  const uint32_t mantissa = code & ((1u << layout.mantissa_bits) - 1u);
  const int exponent = static_cast<int>(code >> layout.mantissa_bits);
  const double fraction = std::ldexp(mantissa, -layout.mantissa_bits);
  if (exponent == 0) return std::ldexp(fraction, 1 - layout.bias);
  return std::ldexp(1.0 + fraction, exponent - layout.bias);
}

// Magnitudes of all finite codes, ascending; then, for the formats that
// overflow, the value that the next code would have, which means infinity.
const std::vector<double>& Magnitudes(Kind kind) {
  static const std::array<std::vector<double>, 5> tables = [] {
    std::array<std::vector<double>, 5> result;
    for (size_t i = 0; i < result.size(); ++i) {
      const Layout& layout = LayoutOf(static_cast<Kind>(i));
      const uint32_t last = layout.max_code + (layout.saturates ? 0 : 1);
      for (uint32_t code = 0; code <= last; ++code) {
        result[i].push_back(Magnitude(layout, code));
      }
    }
    return result;
  }();
  return tables[static_cast<size_t>(kind)];
}

}  // namespace

int PositiveCodes(Kind kind) {
  const Layout& layout = LayoutOf(kind);
  return 1 << (layout.exponent_bits + layout.mantissa_bits);
}

double Decode(Kind kind, uint32_t code) {
  const Layout& layout = LayoutOf(kind);
  const uint32_t sign_bit = static_cast<uint32_t>(PositiveCodes(kind));
  const uint32_t magnitude_code = code & (sign_bit - 1);
  const double sign = (code & sign_bit) != 0 ? -1.0 : 1.0;
  if (magnitude_code > layout.max_code) {
    const bool infinity =
        layout.infinity && magnitude_code == layout.max_code + 1;
    return infinity ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * Magnitude(layout, magnitude_code);
}

bool IsNanCode(Kind kind, uint32_t code) {
  return std::isnan(Decode(kind, code));
}

uint32_t Encode(Kind kind, double value) {
  const Layout& layout = LayoutOf(kind);
  if (std::isnan(value)) return layout.nan_code;
  const uint32_t sign =
      std::signbit(value) ? static_cast<uint32_t>(PositiveCodes(kind)) : 0;
  const std::vector<double>& table = Magnitudes(kind);
  const double magnitude = std::abs(value);
  const auto above = std::lower_bound(table.begin(), table.end(), magnitude);
  if (above == table.end()) {
    return sign | static_cast<uint32_t>(table.size() - 1);
  }
  const uint32_t upper = static_cast<uint32_t>(above - table.begin());
  if (*above == magnitude) return sign | upper;
  const double to_upper = *above - magnitude;
  const double to_lower = magnitude - *(above - 1);
  if (to_upper != to_lower) {
    return sign | (to_upper < to_lower ? upper : upper - 1);
  }
  return sign | (upper % 2 == 0 ? upper : upper - 1);
}

double DecodeE8M0(uint32_t code) {
  if (code == 255) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(1.0, static_cast<int>(code) - 127);
}

uint32_t EncodeE8M0RoundUp(double p) {
  if (std::isnan(p)) return 255;
  uint32_t code = 0;
  while (code < 254 && DecodeE8M0(code) < p) ++code;
  return code;
}

float FloatOfBits(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint32_t BitsOfFloat(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace scalekeeper::oracle
