#include "base/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

std::string Ascending(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

// RFC 3720, B.4.
TEST(Crc32cTest, VectorsOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(Ascending(32)), 0x46DD794Eu);
  const std::string ascending = Ascending(32);
  EXPECT_EQ(Crc32c(std::string(ascending.rbegin(), ascending.rend())),
            0x113FDB5Cu);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, PiecesGiveTheSameAsTheWhole) {
  const std::string bytes = Ascending(100);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(bytes.substr(0, cut)), bytes.substr(cut)),
              Crc32c(bytes));
  }
}

}  // namespace
}  // namespace scalekeeper
