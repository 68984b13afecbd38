// CRC-32C (Castagnoli), as iSCSI (RFC 3720), ext4 and LevelDB use it: finds
// every change of up to 32 neighbouring bits. No protection against intent.
//
// Example:
//   Crc32c("123456789");   // 0xE3069283
#ifndef SCALEKEEPER_BASE_CRC32C_H_
#define SCALEKEEPER_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace scalekeeper {

// Of `bytes` behind those that `crc` is the checksum of.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

inline uint32_t Crc32c(absl::string_view bytes) {
  return ExtendCrc32c(0, bytes);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_CRC32C_H_
