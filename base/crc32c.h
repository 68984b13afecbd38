// CRC-32C (Castagnoli): the checksum of records that must survive a crash.
//
// Polynomial 0x1EDC6F41, reflected, initial value and final xor 0xFFFFFFFF, as
// in RFC 3720. "123456789" gives 0xE3069283.
#ifndef SCALEKEEPER_BASE_CRC32C_H_
#define SCALEKEEPER_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace scalekeeper {

// Of `bytes`, or of what gave `before` followed by `bytes`.
uint32_t Crc32c(absl::string_view bytes, uint32_t before = 0);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_CRC32C_H_
