#include "base/json.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

TEST(JsonStringTest, EscapesWhatJsonMustNotHave) {
  EXPECT_EQ(JsonString(""), "\"\"");
  EXPECT_EQ(JsonString("plain \xc3\xa9 \xf0\x9f\x98\x80"),
            "\"plain \xc3\xa9 \xf0\x9f\x98\x80\"");
  EXPECT_EQ(JsonString("\"\\/"), "\"\\\"\\\\/\"");
  EXPECT_EQ(JsonString(absl::string_view("\n\t\0\x1f\x7f", 5)),
            "\"\\u000a\\u0009\\u0000\\u001f\\u007f\"");
}

TEST(JsonStringTest, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(JsonString("a\xff"
                       "b\xc3"),
            "\"a\\ufffdb\\ufffd\"");
  EXPECT_EQ(JsonString("\xff\xfe"), "\"\\ufffd\\ufffd\"");
}

TEST(JsonNumberTest, KeepsFloat32AndHasNoInfinities) {
  EXPECT_EQ(JsonNumber(0), "0");
  EXPECT_EQ(JsonNumber(149.33333), "149.33333");
  EXPECT_EQ(JsonNumber(0.1f), "0.100000001");
  EXPECT_EQ(JsonNumber(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(JsonNumber(std::numeric_limits<double>::quiet_NaN()), "null");
}

TEST(JsonNumberTest, OrItsNameInAString) {
  EXPECT_EQ(JsonNumberOrName(0.5), "0.5");
  EXPECT_EQ(JsonNumberOrName(std::numeric_limits<double>::infinity()),
            "\"inf\"");
  EXPECT_EQ(JsonNumberOrName(-std::numeric_limits<double>::infinity()),
            "\"-inf\"");
  EXPECT_EQ(JsonNumberOrName(std::numeric_limits<double>::quiet_NaN()),
            "\"nan\"");
}

}  // namespace
}  // namespace scalekeeper
