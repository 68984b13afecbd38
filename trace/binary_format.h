// The framing of a binary trace; see proto/trace.proto.
#ifndef SCALEKEEPER_TRACE_BINARY_FORMAT_H_
#define SCALEKEEPER_TRACE_BINARY_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/crc32c.h"

namespace scalekeeper {
namespace internal {

inline constexpr absl::string_view kTraceMagic = "SKTRACE1";
inline constexpr int64_t kTraceFormatVersion = 1;
// Length and checksum.
inline constexpr size_t kFrameBytes = 8;
// More in one record is no record: 16 Mi slots.
inline constexpr uint32_t kMaxRecord = uint32_t{64} << 20;

inline void AppendUint32(uint32_t value, std::string* bytes) {
  for (int shift = 0; shift < 32; shift += 8) {
    bytes->push_back(static_cast<char>((value >> shift) & 0xFFu));
  }
}

inline uint32_t ReadUint32(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  }
  return value;
}

// Of a frame's first four bytes and its payload.
inline uint32_t FrameChecksum(absl::string_view length,
                              absl::string_view payload) {
  return ExtendCrc32c(Crc32c(length), payload);
}

}  // namespace internal
}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_BINARY_FORMAT_H_
