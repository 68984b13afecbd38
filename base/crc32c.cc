#include "base/crc32c.h"

#include <array>
#include <cstddef>

namespace scalekeeper {
namespace {

constexpr size_t kSlices = 8;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[k][b]: the remainder of byte b followed by k zero bytes, so that eight
// bytes are taken at a time.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82F63B78u : 0u);
    }
    tables[0][b] = crc;
  }
  for (uint32_t b = 0; b < 256; ++b) {
    for (size_t k = 1; k < kSlices; ++k) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 0xFFu];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t Byte(absl::string_view bytes, size_t i) {
  return static_cast<uint8_t>(bytes[i]);
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t before) {
  uint32_t crc = ~before;
  while (bytes.size() >= kSlices) {
    const uint32_t low = crc ^ (Byte(bytes, 0) | Byte(bytes, 1) << 8 |
                                Byte(bytes, 2) << 16 | Byte(bytes, 3) << 24);
    crc = kTables[7][low & 0xFFu] ^ kTables[6][(low >> 8) & 0xFFu] ^
          kTables[5][(low >> 16) & 0xFFu] ^ kTables[4][low >> 24] ^
          kTables[3][Byte(bytes, 4)] ^ kTables[2][Byte(bytes, 5)] ^
          kTables[1][Byte(bytes, 6)] ^ kTables[0][Byte(bytes, 7)];
    bytes.remove_prefix(kSlices);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ Byte(bytes, i)) & 0xFFu];
  }
  return ~crc;
}

}  // namespace scalekeeper
