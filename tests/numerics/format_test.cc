// Truth: encode and decode of the element formats against tables made with
// ml_dtypes and against an oracle that shares no code with numerics/.
#include "numerics/format.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/data_file.h"
#include "tests/testing/float_walk.h"
#include "tests/testing/oracle.h"

namespace scalekeeper {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct FormatCase {
  const char* name;
  Format format;
  oracle::Kind oracle_kind;
  int codes;
  size_t table_column;   // in both files of tests/data/oracle
  size_t decode_column;  // in decode.csv, after the code
};

std::ostream& operator<<(std::ostream& os, const FormatCase& c) {
  return os << c.name;
}

class FormatTest : public ::testing::TestWithParam<FormatCase> {};

INSTANTIATE_TEST_SUITE_P(
    All, FormatTest,
    ::testing::Values(
        FormatCase{"E4M3", Format::kE4M3, oracle::Kind::kE4M3, 256, 0, 1},
        FormatCase{"E5M2", Format::kE5M2, oracle::Kind::kE5M2, 256, 1, 2},
        FormatCase{"E2M1", Format::kE2M1, oracle::Kind::kE2M1, 16, 2, 4}),
    [](const auto& info) { return std::string(info.param.name); });

// NaN has several codes; every other value has one.
void ExpectSameCode(const FormatCase& c, uint32_t want, uint32_t got,
                    uint32_t input_bits) {
  if (oracle::IsNanCode(c.oracle_kind, want)) {
    ASSERT_TRUE(oracle::IsNanCode(c.oracle_kind, got))
        << c.name << " of " << std::hex << input_bits << ": got " << got;
    return;
  }
  ASSERT_EQ(want, got) << c.name << " of " << std::hex << input_bits;
}

TEST_P(FormatTest, EveryBFloat16InputEncodesAsMlDtypesSays) {
  const FormatCase& c = GetParam();
  const std::string table = ReadDataFile("oracle/bf16_to_low.bin");
  ASSERT_EQ(table.size(), 3u * 65536u);
  for (uint32_t i = 0; i < 65536; ++i) {
    const float x = oracle::FloatOfBits(i << 16);
    const uint32_t want = static_cast<uint8_t>(table[3 * i + c.table_column]);
    const uint32_t got = Encode(c.format, x);
    if (std::isnan(x) && c.format == Format::kE2M1) {
      ASSERT_EQ(got, 7u);  // ours: E2M1 has no NaN
      continue;
    }
    ExpectSameCode(c, want, got, i << 16);
    ExpectSameCode(c, want, oracle::Encode(c.oracle_kind, x), i << 16);
  }
}

TEST_P(FormatTest, EveryCodeDecodesAsMlDtypesSays) {
  const FormatCase& c = GetParam();
  std::istringstream file(ReadDataFile("oracle/decode.csv"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  int code = 0;
  while (std::getline(file, line) && code < c.codes) {
    std::istringstream cells(line);
    std::string cell;
    for (size_t i = 0; i <= c.decode_column; ++i) {
      ASSERT_TRUE(std::getline(cells, cell, ',')) << line;
    }
    const float want = std::strtof(cell.c_str(), nullptr);
    const float got = Decode(c.format, static_cast<uint8_t>(code));
    const double oracle_value =
        oracle::Decode(c.oracle_kind, static_cast<uint32_t>(code));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << code;
      EXPECT_TRUE(std::isnan(oracle_value)) << code;
    } else {
      // decode.csv has 9 digits: enough to name one float32.
      EXPECT_EQ(oracle::BitsOfFloat(want), oracle::BitsOfFloat(got)) << code;
      EXPECT_EQ(static_cast<double>(want), oracle_value) << code;
    }
    ++code;
  }
  EXPECT_EQ(code, c.codes);
}

TEST_P(FormatTest, EveryFiniteCodeSurvivesARoundTrip) {
  const FormatCase& c = GetParam();
  for (int i = 0; i < c.codes; ++i) {
    const uint8_t code = static_cast<uint8_t>(i);
    const float value = Decode(c.format, code);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(Encode(c.format, value), code);
  }
}

TEST_P(FormatTest, Float32StepsEncodeAsTheOracleSays) {
  const FormatCase& c = GetParam();
  ForEachSteppedFloat([&](uint32_t bits) {
    const float x = oracle::FloatOfBits(bits);
    ExpectSameCode(c, oracle::Encode(c.oracle_kind, x), Encode(c.format, x),
                   bits);
  });
}

TEST_P(FormatTest, EveryTieAndItsNeighboursEncodeAsTheOracleSays) {
  const FormatCase& c = GetParam();
  ForEachTieNeighbour(c.oracle_kind, [&](double exact) {
    const float x = static_cast<float>(exact);
    ASSERT_EQ(static_cast<double>(x), exact);
    ExpectSameCode(c, oracle::Encode(c.oracle_kind, exact), Encode(c.format, x),
                   oracle::BitsOfFloat(x));
  });
}

TEST_P(FormatTest, NormalResultsAreWithinTheStatedError) {
  const FormatCase& c = GetParam();
  const double bound = c.format == Format::kE4M3   ? 0x1p-4
                       : c.format == Format::kE5M2 ? 0x1p-3
                                                   : 0x1p-2;
  const double min_normal = c.format == Format::kE4M3   ? 0x1p-6
                            : c.format == Format::kE5M2 ? 0x1p-14
                                                        : 1.0;
  for (uint32_t i = 0; i < 65536; ++i) {
    const float x = oracle::FloatOfBits(i << 16);
    const double magnitude = std::abs(static_cast<double>(x));
    if (!(magnitude >= min_normal) || magnitude > FormatMax(c.format)) continue;
    const double back = Decode(c.format, Encode(c.format, x));
    ASSERT_LE(std::abs(back - x), bound * magnitude) << x;
  }
}

struct Row {
  float input;
  uint8_t code;
};

void ExpectRows(Format format, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    EXPECT_EQ(Encode(format, row.input), row.code)
        << std::hexfloat << row.input;
  }
}

TEST(FormatTableTest, OverflowEdgeOfE4M3) {  // A1
  ExpectRows(Format::kE4M3, {{448.0f, 0x7E},
                             {FloatFromBits(0x43E00001), 0x7E},
                             {464.0f, 0x7E},
                             {FloatFromBits(0x43E80001), 0x7E},
                             {465.0f, 0x7E},
                             {480.0f, 0x7E},
                             {1000.0f, 0x7E},
                             {kInf, 0x7E},
                             {-kInf, 0xFE},
                             {-464.0f, 0xFE}});
}

TEST(FormatTableTest, SubnormalsAndTiesOfE4M3) {  // A3
  ExpectRows(Format::kE4M3, {{0x1p-9f, 0x01},
                             {0x1p-10f, 0x00},
                             {FloatFromBits(0x3A800001), 0x01},
                             {1.5f * 0x1p-9f, 0x02},
                             {2.5f * 0x1p-9f, 0x02},
                             {7.5f * 0x1p-9f, 0x08},
                             {FloatFromBits(0x3C6FFFFF), 0x07},
                             {0x1p-6f, 0x08},
                             {17.0f, 0x58},
                             {19.0f, 0x5A},
                             {0.1f, 0x1D}});
}

TEST(FormatTableTest, NegativeZeroKeepsItsSign) {  // A4
  ExpectRows(Format::kE4M3,
             {{-0.0f, 0x80}, {-1e-8f, 0x80}, {-0x1p-10f, 0x80}, {0.0f, 0x00}});
  ExpectRows(Format::kE5M2, {{-0.0f, 0x80}, {0.0f, 0x00}});
  ExpectRows(Format::kE2M1, {{-0.0f, 0x8}, {0.0f, 0x0}});
}

TEST(FormatTableTest, EdgesOfE5M2) {  // A5
  ExpectRows(Format::kE5M2, {{57344.0f, 0x7B},
                             {FloatFromBits(0x476FFFFF), 0x7B},
                             {61440.0f, 0x7B},
                             {65536.0f, 0x7B},
                             {kInf, 0x7B},
                             {-kInf, 0xFB},
                             {0x1p-16f, 0x01},
                             {0x1p-17f, 0x00},
                             {1.5f * 0x1p-16f, 0x02},
                             {3.5f * 0x1p-16f, 0x04}});
}

TEST(FormatTableTest, TiesAndTopBinadeOfE2M1) {  // E7
  ExpectRows(Format::kE2M1, {{0.25f, 0},
                             {0.75f, 2},
                             {1.25f, 2},
                             {1.75f, 4},
                             {2.5f, 4},
                             {3.5f, 6},
                             {5.0f, 6},
                             {5.0001f, 7},
                             {7.0f, 7},
                             {-0.25f, 8}});
}

TEST(FormatTableTest, Nvfp4BlockOfTheTextbookCase) {  // E1
  // Block amax 1, S_enc 1: the E4M3 block scale, then the four E2M1 codes.
  const float block_scale = 1.0f * (1.0f * (1.0f / 6.0f));
  EXPECT_EQ(EncodeE4M3(block_scale), 0x23);
  const float encode = 1.0f / DecodeE4M3(0x23);
  EXPECT_FLOAT_EQ(encode, 5.818182f);
  ExpectRows(Format::kE2M1, {{1.0f * encode, 7},
                             {0.5f * encode, 5},
                             {-0.25f * encode, 0xB},
                             {0.0f * encode, 0}});
}

TEST(FormatTableTest, NaNStaysNaN) {  // A9
  EXPECT_EQ(EncodeE4M3(kNaN), 0x7F);
  EXPECT_EQ(EncodeE4M3(-kNaN), 0x7F);  // one code, as GPUs give
  EXPECT_EQ(EncodeE5M2(kNaN), 0x7F);
  EXPECT_EQ(EncodeE5M2(-kNaN), 0x7F);
  EXPECT_EQ(EncodeE2M1(kNaN), 7);
  EXPECT_EQ(EncodeE2M1(-kNaN), 7);
}

TEST(FormatTableTest, LargestFiniteValues) {
  EXPECT_EQ(FormatMax(Format::kE4M3), 448.0f);
  EXPECT_EQ(FormatMax(Format::kE5M2), 57344.0f);
  EXPECT_EQ(FormatMax(Format::kE2M1), 6.0f);
}

}  // namespace
}  // namespace scalekeeper
