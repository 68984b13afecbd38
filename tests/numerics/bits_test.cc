// Truth: bfloat16 and half conversions against the oracle.
#include "numerics/bits.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "numerics/convert.h"
#include "tests/testing/float_walk.h"
#include "tests/testing/oracle.h"

namespace scalekeeper {
namespace {

using oracle::Kind;

void ExpectSame(Kind kind, uint32_t want, uint32_t got, double input) {
  if (oracle::IsNanCode(kind, want)) {
    ASSERT_TRUE(oracle::IsNanCode(kind, got)) << input;
    return;
  }
  ASSERT_EQ(want, got) << std::hexfloat << input;
}

TEST(BitsTest, AllBFloat16CodesWiden) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const double want = oracle::Decode(Kind::kBF16, code);
    const float got = FloatFromBF16(static_cast<uint16_t>(code));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << code;
    } else {
      ASSERT_EQ(static_cast<double>(got), want) << code;
      ASSERT_EQ(std::signbit(got), std::signbit(want)) << code;
    }
  }
}

TEST(BitsTest, AllHalfCodesWiden) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const double want = oracle::Decode(Kind::kF16, code);
    const float got = FloatFromF16(static_cast<uint16_t>(code));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << code;
    } else {
      ASSERT_EQ(static_cast<double>(got), want) << code;
      ASSERT_EQ(std::signbit(got), std::signbit(want)) << code;
    }
  }
}

TEST(BitsTest, CodesSurviveARoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t code = static_cast<uint16_t>(i);
    if (!oracle::IsNanCode(Kind::kBF16, code)) {
      ASSERT_EQ(BF16FromFloat(FloatFromBF16(code)), code);
    }
    if (!oracle::IsNanCode(Kind::kF16, code)) {
      ASSERT_EQ(F16FromFloat(FloatFromF16(code)), code);
    }
  }
}

TEST(BitsTest, NarrowingTiesAndNeighbours) {
  for (const Kind kind : {Kind::kBF16, Kind::kF16}) {
    ForEachTieNeighbour(kind, [&](double exact) {
      const float x = static_cast<float>(exact);
      const uint32_t got =
          kind == Kind::kBF16 ? BF16FromFloat(x) : F16FromFloat(x);
      ExpectSame(kind, oracle::Encode(kind, exact), got, exact);
    });
  }
}

TEST(BitsTest, NarrowingFloat32Steps) {
  ForEachSteppedFloat([](uint32_t bits) {
    const float x = FloatFromBits(bits);
    ExpectSame(Kind::kBF16, oracle::Encode(Kind::kBF16, x), BF16FromFloat(x),
               x);
    ExpectSame(Kind::kF16, oracle::Encode(Kind::kF16, x), F16FromFloat(x), x);
  });
}

TEST(BitsTest, NarrowingOverflowsToInfinity) {
  EXPECT_EQ(F16FromFloat(65504.0f), 0x7BFF);
  EXPECT_EQ(F16FromFloat(65519.996f), 0x7BFF);
  EXPECT_EQ(F16FromFloat(65520.0f), 0x7C00);
  EXPECT_EQ(F16FromFloat(-1e9f), 0xFC00);
  EXPECT_EQ(BF16FromFloat(kFloatMax), 0x7F80);
  EXPECT_EQ(BF16FromFloat(FloatFromBits(0x7F7F7FFF)), 0x7F7F);
}

// A double halfway between two codes, nudged by one double ulp: rounding to
// float32 first would make a tie of it and take the even code.
TEST(BitsTest, NarrowingFromDoubleRoundsOnce) {
  for (const Kind kind : {Kind::kBF16, Kind::kF16}) {
    const DType dtype = kind == Kind::kBF16 ? DType::kBF16 : DType::kF16;
    ForEachTieNeighbour(kind, [&](double x) {
      for (const double y :
           {std::nextafter(x, -HUGE_VAL), x, std::nextafter(x, HUGE_VAL)}) {
        alignas(float) uint16_t got[2] = {};
        StoreDouble(dtype, y, got);
        ExpectSame(kind, oracle::Encode(kind, y), got[0], y);
      }
    });
  }
}

TEST(BitsTest, NarrowingFromDoubleKeepsExtremes) {
  float f = 0;
  StoreDouble(DType::kF32, 1.0 + 0x1p-24, &f);  // a tie
  EXPECT_EQ(f, 1.0f);
  StoreDouble(DType::kF32, 1.0 + 0x1p-24 + 0x1p-52, &f);
  EXPECT_EQ(f, 1.0f + 0x1p-23f);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    alignas(float) uint16_t h[2] = {};
    StoreDouble(dtype, 1e300, h);
    EXPECT_EQ(LoadFloat(dtype, h), HUGE_VALF);
    StoreDouble(dtype, -HUGE_VAL, h);
    EXPECT_EQ(LoadFloat(dtype, h), -HUGE_VALF);
    StoreDouble(dtype, -0.0, h);
    EXPECT_EQ(h[0], 0x8000);
    StoreDouble(dtype, -1e-300, h);
    EXPECT_EQ(h[0], 0x8000);
    StoreDouble(dtype, std::numeric_limits<double>::quiet_NaN(), h);
    EXPECT_TRUE(std::isnan(LoadFloat(dtype, h)));
  }
}

TEST(ConvertTest, StoreThenLoadKeepsTheValue) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    float storage[4] = {};
    StoreFloat(dtype, -1.5f, storage, 3);
    EXPECT_EQ(LoadFloat(dtype, storage, 3), -1.5f);
    EXPECT_EQ(LoadFloat(dtype, storage, 2), 0.0f);
  }
}

}  // namespace
}  // namespace scalekeeper
