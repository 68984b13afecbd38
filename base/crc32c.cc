// Eight bytes at a time ("slicing by 8": Kounavis and Berry, "A Systematic
// Approach to Building High Performance Software-Based CRC Generators"):
// kTables[k][b] is the checksum of byte b with k zero bytes behind it.
#include "base/crc32c.h"

#include <array>
#include <cstddef>

namespace scalekeeper {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // bits in reverse order
constexpr size_t kSlices = 8;

using Table = std::array<uint32_t, 256>;

constexpr std::array<Table, kSlices> MakeTables() {
  std::array<Table, kSlices> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<Table, kSlices> kTables = MakeTables();

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
  crc = ~crc;
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, p += kSlices) {
    uint32_t next = 0;
    for (size_t i = 0; i < kSlices; ++i) {
      const uint32_t mixed = i < 4 ? p[i] ^ ((crc >> (8 * i)) & 0xFF) : p[i];
      next ^= kTables[kSlices - 1 - i][mixed];
    }
    crc = next;
  }
  for (; left > 0; --left, ++p) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xFF];
  }
  return ~crc;
}

}  // namespace scalekeeper
