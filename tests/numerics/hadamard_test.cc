// The transform against a matrix that is written out here, in double.
#include "numerics/hadamard.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

constexpr int kSigns[16] = {1,  1,  1,  -1, 1,  -1, -1, -1,
                            -1, -1, -1, 1,  -1, 1,  -1, -1};

// Element (i, j) of H: -1 to the number of common one bits.
int Sylvester(int i, int j) {
  int sign = 1;
  for (int bit = 1; bit < 16; bit *= 2) {
    if ((i & bit) != 0 && (j & bit) != 0) sign = -sign;
  }
  return sign;
}

std::vector<double> Matrix(const std::vector<float>& x) {
  std::vector<double> y(16);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      y[i] += 0.25 * Sylvester(i, j) * kSigns[j] * static_cast<double>(x[j]);
    }
  }
  return y;
}

std::vector<float> Wave(int k) {
  std::vector<float> x(16);
  for (int i = 0; i < 16; ++i) {
    x[i] = std::sin(0.7f * static_cast<float>(i * k + k)) *
           std::ldexp(1.0f, (i * 5 + k) % 7);
  }
  return x;
}

TEST(HadamardTest, IsTheMatrixExactlyOnSmallIntegers) {
  for (int k = 0; k < 16; ++k) {
    std::vector<float> x(16);
    for (int i = 0; i < 16; ++i)
      x[i] = static_cast<float>((i * 7 + k) % 11 - 5);
    const std::vector<double> want = Matrix(x);
    HadamardTransform(x.data());
    for (int i = 0; i < 16; ++i) EXPECT_EQ(x[i], want[i]) << k << " " << i;
  }
}

TEST(HadamardTest, IsTheMatrixUpToRounding) {
  for (int k = 0; k < 50; ++k) {
    std::vector<float> x = Wave(k);
    const std::vector<double> want = Matrix(x);
    double size = 0;
    for (float v : x) size = std::max(size, std::abs(static_cast<double>(v)));
    HadamardTransform(x.data());
    // Four roundings of sums of at most 16 values.
    for (int i = 0; i < 16; ++i) {
      EXPECT_NEAR(x[i], want[i], 16 * size * std::ldexp(1.0, -24));
    }
  }
}

TEST(HadamardTest, KeepsProductsAndLengths) {
  for (int k = 0; k < 50; ++k) {
    std::vector<float> a = Wave(k), b = Wave(k + 3);
    const auto product = [&] {
      double sum = 0;
      for (int i = 0; i < 16; ++i) sum += static_cast<double>(a[i]) * b[i];
      return sum;
    };
    double scale = 0;
    for (int i = 0; i < 16; ++i) {
      scale += std::abs(static_cast<double>(a[i])) * 64;
    }
    const double before = product();
    HadamardTransform(a.data());
    HadamardTransform(b.data());
    EXPECT_NEAR(product(), before, scale * 64 * std::ldexp(1.0, -24));
  }
}

TEST(HadamardTest, InverseUndoesIt) {
  for (int i = 0; i < 16; ++i) {
    std::vector<float> x(16, 0.0f);
    x[i] = 3.0f;
    std::vector<float> y = x;
    HadamardTransform(y.data());
    for (int j = 0; j < 16; ++j) EXPECT_EQ(std::abs(y[j]), 0.75f);
    InverseHadamardTransform(y.data());
    EXPECT_EQ(y, x) << i;
  }
}

}  // namespace
}  // namespace scalekeeper
