#include "numerics/e8m0.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "tests/testing/data_file.h"
#include "tests/testing/float_walk.h"
#include "tests/testing/oracle.h"

namespace scalekeeper {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

int Up(float amax, Format format = Format::kE4M3) {
  return E8M0RoundUpFromAmax(AmaxBits(amax), format);
}
int Floor(float amax, Format format = Format::kE4M3) {
  return E8M0FloorFromAmax(AmaxBits(amax), format);
}

TEST(E8M0Test, AllCodesDecodeAsMlDtypesSays) {
  std::istringstream file(ReadDataFile("oracle/decode.csv"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  int code = 0;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string cell;
    for (int i = 0; i <= 3; ++i) ASSERT_TRUE(std::getline(cells, cell, ','));
    const float got = DecodeE8M0(static_cast<uint8_t>(code));
    if (code == 255) {
      EXPECT_EQ(cell, "nan");
      EXPECT_TRUE(std::isnan(got));
    } else {
      EXPECT_EQ(static_cast<double>(got),
                oracle::DecodeE8M0(static_cast<uint32_t>(code)));
      EXPECT_EQ(got, std::strtof(cell.c_str(), nullptr)) << code;
    }
    ++code;
  }
  EXPECT_EQ(code, 256);
}

TEST(E8M0Test, DecodeHasNoZeroAndNoInfinity) {  // D5
  EXPECT_EQ(BitsFromFloat(DecodeE8M0(0)), 0x00400000u);
  EXPECT_EQ(DecodeE8M0(1), 0x1p-126f);
  EXPECT_EQ(DecodeE8M0(127), 1.0f);
  EXPECT_EQ(DecodeE8M0(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(DecodeE8M0(255)));
}

TEST(E8M0Test, ScaleIsTheReciprocal) {
  for (int code = 0; code < 255; ++code) {
    const uint8_t c = static_cast<uint8_t>(code);
    EXPECT_EQ(static_cast<double>(E8M0Scale(c)), std::ldexp(1.0, 127 - code));
    EXPECT_EQ(E8M0Scale(c) * DecodeE8M0(c), 1.0f);
  }
  EXPECT_TRUE(std::isnan(E8M0Scale(255)));
}

TEST(E8M0Test, RoundUpIsTheSmallestPowerOfTwoThatIsLargeEnough) {
  ForEachSteppedFloat([](uint32_t bits) {
    const uint32_t magnitude = bits & kFloatMagnitudeMask;
    const float p = FloatFromBits(magnitude);
    ASSERT_EQ(EncodeE8M0RoundUp(p), oracle::EncodeE8M0RoundUp(p))
        << std::hex << magnitude;
  });
}

TEST(E8M0Test, TableOfTheDefinition) {
  EXPECT_EQ(Up(0.0f), 0x00);
  EXPECT_EQ(Up(1.0f), 0x77);
  EXPECT_EQ(Up(1.75f), 0x77);
  EXPECT_EQ(Up(std::nextafter(1.75f, 2.0f)), 0x78);
  EXPECT_EQ(Floor(std::nextafter(1.75f, 2.0f)), 0x77);
  EXPECT_EQ(Up(kFloatMax), 0xF7);
  EXPECT_EQ(Up(448.0f), 0x7F);
  EXPECT_EQ(Up(std::nextafter(448.0f, 449.0f)), 0x80);
  EXPECT_EQ(Up(449.0f), 0x80);
  EXPECT_EQ(Up(896.0f), 0x80);
  for (int k = -100; k <= 100; ++k) {
    EXPECT_EQ(Up(std::ldexp(448.0f, k)), 127 + k);
  }
  EXPECT_EQ(Up(469762080.0f), 148);
}

TEST(E8M0Test, BlockMaximumAtTheEdge) {  // D1
  struct {
    float amax;
    int byte;
    int code;
  } const rows[] = {{1.0f, 119, 0x78},
                    {256.0f, 127, 0x78},
                    {FloatFromBits(0x43DFFFFF), 127, 0x7E},
                    {448.0f, 127, 0x7E},
                    {FloatFromBits(0x43E00001), 128, 0x76},
                    {480.0f, 128, 0x77},
                    {511.0f, 128, 0x78},
                    {512.0f, 128, 0x78},
                    {0x1p-9f, 110, 0x78}};
  for (const auto& row : rows) {
    const int byte = Up(row.amax);
    EXPECT_EQ(byte, row.byte) << row.amax;
    EXPECT_EQ(EncodeE4M3(row.amax * E8M0Scale(static_cast<uint8_t>(byte))),
              row.code)
        << row.amax;
  }
  for (const float amax : {480.0f, 511.0f}) {
    EXPECT_EQ(Floor(amax), 127);
    EXPECT_EQ(EncodeE4M3(amax * E8M0Scale(127)), 0x7E);
  }
}

TEST(E8M0Test, RoundingModeIsNamed) {  // D9
  EXPECT_EQ(Up(560.0f), 128);
  const uint8_t code = EncodeE4M3(560.0f * E8M0Scale(128));
  EXPECT_EQ(code, 0x79);
  EXPECT_EQ(DecodeE4M3(code) * DecodeE8M0(128), 576.0f);
  EXPECT_EQ(Floor(511.0f), 127);  // where up gives 128
}

TEST(E8M0Test, NonFiniteAmax) {  // D7, D8
  EXPECT_EQ(Up(kInf), 0xFE);
  EXPECT_EQ(Up(kNaN), 0xFF);
  EXPECT_EQ(Floor(kInf), 0xFE);
  EXPECT_EQ(Floor(kNaN), 0xFF);
  // An infinite element of an infinite block reads back as infinity.
  const uint8_t code = EncodeE4M3(kInf * E8M0Scale(0xFE));
  EXPECT_EQ(code, 0x7E);
  EXPECT_EQ(DecodeE4M3(code) * DecodeE8M0(0xFE), kInf);
  EXPECT_EQ(EncodeE4M3(1.0f * E8M0Scale(0xFE)), 0x00);
  EXPECT_EQ(EncodeE4M3(-0.0f * E8M0Scale(0)), 0x80);
}

TEST(E8M0Test, FloorIsTheExponentClamped) {
  for (int k = -126; k <= 127; ++k) {
    const float amax = std::ldexp(1.0f, k);
    for (const float a : {amax, std::nextafter(amax, kInf)}) {
      EXPECT_EQ(Floor(a), std::max(0, 127 + k - 8)) << k;
      EXPECT_EQ(Floor(a, Format::kE5M2), std::max(0, 127 + k - 15)) << k;
    }
  }
  EXPECT_EQ(Floor(0.0f), 0);
  EXPECT_EQ(Floor(0x1p-149f), 0);
}

}  // namespace
}  // namespace scalekeeper
