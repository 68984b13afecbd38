#include "gemm/cublaslt_operand.h"

#include "base/buffer.h"
#include "base/fp8_capability.h"
#include "base/status_macros.h"
#include "gemm/cublaslt_types.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/scaled_kernels_cuda.h"

namespace scalekeeper::internal {
namespace {

constexpr int64_t kAlignment = 16;  // bytes
constexpr int64_t kBlock = 128;
// 128 x 128 scales: columns of the grid are padded to this.
constexpr int64_t kBlockColumns = 4;

// What the scales of an operand are, whatever their layout.
enum class ScaleKind {
  kNone,  // plain values
  kTensor,
  kOuter,
  k1x128,
  k128x128,
  kMxfp8,
  kNvfp4,
  kOther
};

ScaleKind KindOf(const MatmulInput& input) {
  const BlockScales& scales = input.grid.scales;
  switch (input.scaling) {
    case Scaling::kHighPrecision:
      return ScaleKind::kNone;
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      return ScaleKind::kTensor;
    case Scaling::kRowwise:
      return ScaleKind::kOuter;
    case Scaling::kBlock:
      if (scales.block_cols != kBlock) return ScaleKind::kOther;
      if (scales.block_rows == 1) return ScaleKind::k1x128;
      return scales.block_rows == kBlock ? ScaleKind::k128x128
                                         : ScaleKind::kOther;
    case Scaling::kMxfp8:
      return ScaleKind::kMxfp8;
    case Scaling::kNvfp4:
      return ScaleKind::kNvfp4;
    case Scaling::kCustom:
      break;
  }
  return ScaleKind::kOther;
}

bool IsFloatKind(ScaleKind kind) {
  return kind == ScaleKind::kTensor || kind == ScaleKind::kOuter ||
         kind == ScaleKind::k1x128 || kind == ScaleKind::k128x128;
}

// A microscaled operand that cuBLASLt can read where it lies.
bool IsReadInPlace(const Operand& operand) {
  const MatmulInput& input = operand.input;
  const GridView& grid = input.grid;
  const bool is_packed = input.format == Format::kE2M1;
  return grid.scales.layout == ScaleLayout::kTiled && !grid.is_transposed &&
         grid.first_row == 0 && grid.first_col == 0 &&
         IsAligned(grid.scales.data) && IsAligned(input.values.data) &&
         input.values.col_stride == 1 &&
         input.values.cols % (is_packed ? 2 * kAlignment : kAlignment) == 0 &&
         input.values.row_stride == input.values.cols;
}

bool StartsAtOrigin(const GridView& grid) {
  return !grid.is_transposed && grid.first_row == 0 && grid.first_col == 0 &&
         grid.scales.layout == ScaleLayout::kStrided &&
         IsAligned(grid.scales.data);
}

}  // namespace

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0;
}

bool IsTaken(int64_t length, int64_t stride, int64_t count, int64_t distance,
             int64_t element_bytes, int64_t* ld) {
  *ld = count <= 1 ? RoundUp(length, kAlignment / element_bytes) : distance;
  return (stride == 1 || length <= 1) && *ld >= length &&
         *ld * element_bytes % kAlignment == 0;
}

size_t StagingLayout::Add(int64_t bytes) {
  const size_t offset = bytes_;
  bytes_ += static_cast<size_t>(
      RoundUp(bytes, static_cast<int64_t>(Allocator::kAlignment)));
  return offset;
}

Operand OperandOf(const MatmulInput& input) {
  Operand operand;
  operand.input = input;
  operand.type =
      input.is_codes() ? CudaType(input.format) : CudaType(input.values.dtype);
  return operand;
}

bool IsBlocked(ScaleMode mode) {
  return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F ||
         mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
}

std::optional<ScaleModes> ChooseScaleModes(const Operand& a, const Operand& b,
                                           int compute_capability) {
  constexpr int kHopper = 90;
  constexpr int kBlackwell = 100;
  const ScaleKind kind_a = KindOf(a.input);
  const ScaleKind kind_b = KindOf(b.input);
  if (kind_a == ScaleKind::kNone && kind_b == ScaleKind::kNone) {
    if (a.values().dtype != b.values().dtype) return std::nullopt;
    return ScaleModes();
  }
  if (kind_a == ScaleKind::kTensor && kind_b == ScaleKind::kTensor) {
    if (!CheckHasFp8(a.values().device, compute_capability).ok()) {
      return std::nullopt;
    }
    return ScaleModes();
  }
  if (IsFloatKind(kind_a) && IsFloatKind(kind_b)) {
    if (compute_capability != kHopper) return std::nullopt;
    const auto is_outer = [](ScaleKind kind) {
      return kind == ScaleKind::kTensor || kind == ScaleKind::kOuter;
    };
    if (is_outer(kind_a) && is_outer(kind_b)) {
      return ScaleModes{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
                        CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F};
    }
    const auto mode = [](ScaleKind kind) {
      return kind == ScaleKind::k128x128
                 ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    };
    ScaleModes modes = {mode(kind_a), mode(kind_b)};
    // There is no 128x128 x 128x128: the blocks of `a` are written out as
    // 1x128.
    if (modes.a == modes.b) modes.a = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    return modes;
  }
  if (kind_a != kind_b || compute_capability < kBlackwell ||
      !IsReadInPlace(a) || !IsReadInPlace(b)) {
    return std::nullopt;
  }
  if (kind_a == ScaleKind::kMxfp8) {
    return ScaleModes{CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
                      CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0};
  }
  if (kind_a == ScaleKind::kNvfp4) {
    return ScaleModes{CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3,
                      CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3};
  }
  return std::nullopt;
}

Placement Place(const Operand& operand, int64_t outer, int64_t depth,
                StagingLayout* staging) {
  const ConstTensorView& v = operand.values();
  const int64_t element_bytes = BytesOf(operand.type);
  Placement place;
  place.outer = outer;
  place.depth = depth;
  if (outer == v.rows && depth == v.cols && IsAligned(v.data)) {
    place.depth_fastest = true;
    if (IsTaken(v.cols, v.col_stride, v.rows, v.row_stride, element_bytes,
                &place.ld)) {
      return place;
    }
    place.depth_fastest = false;
    if (!operand.is_codes() &&
        IsTaken(v.rows, v.row_stride, v.cols, v.col_stride, element_bytes,
                &place.ld)) {
      return place;
    }
  }
  place.is_staged = true;
  place.depth_fastest = true;
  place.ld = RoundUp(depth, kAlignment / element_bytes);
  place.offset = staging->Add(outer * place.ld * element_bytes);
  return place;
}

PlacedScales PlaceScales(const Operand& operand, ScaleMode mode,
                         const Placement& placement, StagingLayout* staging) {
  PlacedScales place;
  place.mode = mode;
  if (!operand.is_codes()) return place;
  const GridView& grid = operand.input.grid;
  const BlockScales& scales = grid.scales;
  const ScaleKind kind = KindOf(operand.input);
  const bool is_whole =
      StartsAtOrigin(grid) && placement.outer == operand.values().rows;
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
      place.is_staged =
          !is_whole || kind != ScaleKind::kOuter || scales.row_stride != 1;
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
      place.is_staged =
          !is_whole || kind != ScaleKind::k1x128 || scales.row_stride != 1 ||
          (scales.cols > 1 && scales.col_stride != placement.outer);
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      place.is_staged =
          !StartsAtOrigin(grid) || scales.col_stride != 1 ||
          (scales.rows > 1 &&
           scales.row_stride != RoundUp(scales.cols, kBlockColumns)) ||
          scales.cols != (placement.depth + kBlock - 1) / kBlock;
      break;
    default:
      return place;
  }
  if (place.is_staged) {
    place.offset =
        staging->Add(ScaleModeBytes(mode, placement.outer, placement.depth));
  }
  return place;
}

absl::StatusOr<const void*> Bring(const Operand& operand,
                                  const Placement& place, char* staging,
                                  cudaStream_t stream) {
  const ConstTensorView& v = operand.values();
  if (!place.is_staged) return v.data;
  PackArguments pack;
  pack.source = v.data;
  pack.destination = staging + place.offset;
  pack.element_bytes = BytesOf(operand.type);
  pack.rows = v.rows;
  pack.cols = v.cols;
  pack.row_stride = v.row_stride;
  pack.col_stride = v.col_stride;
  pack.padded_rows = place.outer;
  pack.padded_cols = place.ld;
  SK_RETURN_IF_ERROR(PackOnDevice(pack, stream));
  return pack.destination;
}

absl::StatusOr<const void*> BringScales(const Operand& operand,
                                        const PlacedScales& scales,
                                        const Placement& place, char* staging,
                                        cudaStream_t stream) {
  if (!operand.is_codes()) return nullptr;
  if (!scales.is_staged) return operand.input.grid.scales.data;
  ExpandScalesArguments expand;
  expand.grid = operand.input.grid;
  expand.destination = reinterpret_cast<float*>(staging + scales.offset);
  expand.rows = operand.values().rows;
  expand.padded_rows = place.outer;
  expand.cols = (place.depth + kBlock - 1) / kBlock;
  expand.col_block = kBlock;
  switch (scales.mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      expand.row_block = kBlock;
      expand.rows = (expand.rows + kBlock - 1) / kBlock;
      expand.padded_rows = (expand.padded_rows + kBlock - 1) / kBlock;
      expand.row_stride = RoundUp(expand.cols, kBlockColumns);
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
      expand.cols = 1;
      break;
    default:
      expand.col_stride = place.outer;
      break;
  }
  SK_RETURN_IF_ERROR(ExpandScalesOnDevice(expand, stream));
  return expand.destination;
}

}  // namespace scalekeeper::internal
