// The host's layout kernels, and their switch on the device kind.
#include "quantizer/layout_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "quantizer/layout_kernels_cuda.h"
#include "quantizer/layout_moves.h"

namespace scalekeeper::kernels {
namespace {

template <typename T>
void Transpose(const T* codes, int64_t rows, int64_t cols, T* out) {
  // Squares that stay in the cache.
  constexpr int64_t kTile = 64;
  for (int64_t top = 0; top < rows; top += kTile) {
    const int64_t bottom = std::min(rows, top + kTile);
    for (int64_t left = 0; left < cols; left += kTile) {
      const int64_t right = std::min(cols, left + kTile);
      for (int64_t c = left; c < right; ++c) {
        for (int64_t r = top; r < bottom; ++r) {
          out[c * rows + r] = codes[r * cols + c];
        }
      }
    }
  }
}

void TransposeNibbles(const uint8_t* codes, int64_t rows, int64_t cols,
                      uint8_t* out) {
  const int64_t pairs = (rows + 1) / 2;
  for (int64_t row = 0; row < cols; ++row) {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      out[row * pairs + pair] = TransposedPair(codes, rows, cols, row, pair);
    }
  }
}

}  // namespace

absl::Status TransposeCodes(const void* codes, int64_t rows, int64_t cols,
                            int bits, void* out, Device device, Stream stream) {
  if (device.kind == DeviceKind::kCuda) {
    return cuda::TransposeCodes(device.index, codes, rows, cols, bits, out,
                                stream);
  }
  switch (bits) {
    case 4:
      TransposeNibbles(static_cast<const uint8_t*>(codes), rows, cols,
                       static_cast<uint8_t*>(out));
      return absl::OkStatus();
    case 8:
      Transpose(static_cast<const uint8_t*>(codes), rows, cols,
                static_cast<uint8_t*>(out));
      return absl::OkStatus();
    case 16:
      Transpose(static_cast<const uint16_t*>(codes), rows, cols,
                static_cast<uint16_t*>(out));
      return absl::OkStatus();
    case 32:
      Transpose(static_cast<const uint32_t*>(codes), rows, cols,
                static_cast<uint32_t*>(out));
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("bits: got ", bits, ", want 4, 8, 16 or 32"));
  }
}

absl::Status TransposeScales(const BlockScales& from, const BlockScales& to,
                             int64_t to_code_rows, Device device,
                             Stream stream) {
  if (device.kind == DeviceKind::kCuda) {
    return cuda::TransposeScales(device.index, from, to, to_code_rows, stream);
  }
  const int64_t rows = StoredRows(to, to_code_rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < to.cols; ++col) MoveScale(from, to, row, col);
  }
  return absl::OkStatus();
}

absl::Status Interleave(const GatheredBlocks& blocks, uint8_t* out,
                        float* scale_inv, Device device, Stream stream) {
  if (device.kind == DeviceKind::kCuda) {
    return cuda::Interleave(device.index, blocks, out, scale_inv, stream);
  }
  *scale_inv = CommonScaleInverse(blocks);
  const uint8_t* source = blocks.codes;
  for (int rank = 0; rank < blocks.ranks; ++rank) {
    for (int64_t line = 0; line < blocks.lines; ++line) {
      std::copy_n(source, blocks.length,
                  out + (line * blocks.ranks + rank) * blocks.length);
      source += blocks.length;
    }
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper::kernels
