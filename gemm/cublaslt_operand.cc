#include "gemm/cublaslt_operand.h"

#include "base/status_macros.h"
#include "gemm/cublaslt_types.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/scaled_kernels_cuda.h"

namespace scalekeeper::internal {
namespace {

constexpr int64_t kBlock = 128;
// 128 x 128 scales: columns of the grid are padded to this.
constexpr int64_t kBlockColumns = 4;

int64_t Blocks(int64_t n, int64_t of) { return (n + of - 1) / of; }

absl::Status WriteTiles(const MatmulInput& operand, const PlacedScales& scales,
                        const Placement& place, uint8_t* destination,
                        cudaStream_t stream) {
  TileScalesArguments tiles;
  tiles.grid = operand.grid;
  tiles.destination = destination;
  tiles.block = operand.grid.col_block();
  tiles.rows = operand.values.rows;
  tiles.cols = Blocks(operand.values.cols, tiles.block);
  tiles.bytes = ScaleModeBytes(scales.mode, place.outer, place.depth);
  return TileScalesOnDevice(tiles, stream);
}

}  // namespace

cudaDataType_t TypeOf(const MatmulInput& input) {
  return input.is_codes() ? CudaType(input.format)
                          : CudaType(input.values.dtype);
}

absl::StatusOr<const void*> Bring(const MatmulInput& operand,
                                  const Placement& place, char* staging,
                                  cudaStream_t stream) {
  const ConstTensorView& v = operand.values;
  if (!place.is_staged) return v.data;
  char* const destination = staging + place.offset;
  if (ElementBits(operand) == 4) {
    PackHalvesArguments pack;
    pack.source = v.data;
    pack.destination = reinterpret_cast<uint8_t*>(destination);
    pack.rows = v.rows;
    pack.cols = v.cols;
    pack.row_stride = v.row_stride;
    pack.col_stride = v.col_stride;
    pack.padded_rows = place.outer;
    pack.padded_cols = place.ld;
    SK_RETURN_IF_ERROR(PackHalvesOnDevice(pack, stream));
    return destination;
  }
  PackArguments pack;
  pack.source = v.data;
  pack.destination = destination;
  pack.element_bytes = ElementBits(operand) / 8;
  pack.rows = v.rows;
  pack.cols = v.cols;
  pack.row_stride = v.row_stride;
  pack.col_stride = v.col_stride;
  pack.padded_rows = place.outer;
  pack.padded_cols = place.ld;
  SK_RETURN_IF_ERROR(PackOnDevice(pack, stream));
  return destination;
}

absl::StatusOr<const void*> BringScales(const MatmulInput& operand,
                                        const PlacedScales& scales,
                                        const Placement& place, char* staging,
                                        cudaStream_t stream) {
  if (!operand.is_codes()) return nullptr;
  if (!scales.is_staged) {
    return static_cast<const char*>(operand.grid.scales.data) + scales.offset;
  }
  char* const destination = staging + scales.offset;
  if (IsTiled(scales.mode)) {
    SK_RETURN_IF_ERROR(WriteTiles(operand, scales, place,
                                  reinterpret_cast<uint8_t*>(destination),
                                  stream));
    return destination;
  }
  ExpandScalesArguments expand;
  expand.grid = operand.grid;
  expand.destination = reinterpret_cast<float*>(destination);
  expand.rows = operand.values.rows;
  expand.padded_rows = place.outer;
  expand.cols = Blocks(place.depth, kBlock);
  expand.col_block = kBlock;
  switch (scales.mode) {
    case ScaleMode::kBlock128x128:
      expand.row_block = kBlock;
      expand.rows = Blocks(expand.rows, kBlock);
      expand.padded_rows = Blocks(expand.padded_rows, kBlock);
      expand.row_stride = RoundUp(expand.cols, kBlockColumns);
      break;
    case ScaleMode::kOuterVec:
      expand.cols = 1;
      break;
    default:
      expand.col_stride = place.outer;
      break;
  }
  SK_RETURN_IF_ERROR(ExpandScalesOnDevice(expand, stream));
  return destination;
}

}  // namespace scalekeeper::internal
