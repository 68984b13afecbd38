// One operand of a checked Matmul: elements, and the scale of each. Internal to
// this package; used on the host and in kernels.
#ifndef SCALEKEEPER_GEMM_MATMUL_INPUT_H_
#define SCALEKEEPER_GEMM_MATMUL_INPUT_H_

#include <cstdint>

#include "base/tensor_view.h"
#include "numerics/format.h"
#include "numerics/host_device.h"
#include "quantizer/block_scales.h"
#include "recipe/policy.h"

namespace scalekeeper {
struct QuantizedTensor;
}

namespace scalekeeper::internal {

// The scales of a strided view of codes, which may be transposed against the
// codes' own order, and may start inside the grid.
struct GridView {
  BlockScales scales;
  bool is_transposed = false;  // the view's rows are the codes' columns
  int64_t first_row = 0;  // of the view's element (0, 0), in the codes' own
  int64_t first_col = 0;  // order
  // Codes of one block along the view's columns.
  SK_HOST_DEVICE int64_t col_block() const {
    return is_transposed ? scales.block_rows : scales.block_cols;
  }

  GridView Transposed() const {
    GridView grid = *this;
    grid.is_transposed = !is_transposed;
    return grid;
  }
  // Of the view that starts at (row, col) of this one.
  GridView From(int64_t row, int64_t col) const {
    GridView grid = *this;
    grid.first_row += is_transposed ? col : row;
    grid.first_col += is_transposed ? row : col;
    return grid;
  }
};

// What the view's element (row, col) is multiplied with.
SK_HOST_DEVICE inline float ScaleInverseAt(const GridView& grid, int64_t row,
                                           int64_t col) {
  return ScaleInverseAt(grid.scales,
                        grid.first_row + (grid.is_transposed ? col : row),
                        grid.first_col + (grid.is_transposed ? row : col));
}

// The code of element `at` (a sum of strides). E2M1 strides count half bytes.
SK_HOST_DEVICE inline uint8_t CodeAt(const void* codes, Format format,
                                     int64_t at) {
  const uint8_t* bytes = static_cast<const uint8_t*>(codes);
  if (format != Format::kE2M1) return bytes[at];
  return static_cast<uint8_t>((bytes[at / 2] >> (4 * (at % 2))) & 0xFu);
}

// `values` has dtype kUint8 when they are codes of `format`.
struct MatmulInput {
  ConstTensorView values;  // strides as in CodeAt
  Format format = Format::kE4M3;
  Scaling scaling = Scaling::kHighPrecision;
  GridView grid;          // codes only
  bool hadamard = false;  // transformed along K
  // kCustom: the tensor, whose maker alone can read it. `values` is then no
  // more than a shape, and `grid` says which part of the tensor it is of.
  const QuantizedTensor* custom = nullptr;

  bool is_codes() const { return values.dtype == DType::kUint8; }
  // One scale for all.
  bool is_per_tensor() const {
    return scaling == Scaling::kDelayed || scaling == Scaling::kCurrent;
  }

  MatmulInput Transposed() const {
    MatmulInput input = *this;
    input.values = ConstTensorView(values.Transposed());
    input.grid = grid.Transposed();
    return input;
  }
  // `rows` x `cols` from (row, col) on. E2M1: the first element must not be the
  // second half of a byte.
  MatmulInput Part(int64_t row, int64_t col, int64_t rows, int64_t cols) const {
    MatmulInput input = *this;
    const int64_t at = row * values.row_stride + col * values.col_stride;
    const int64_t bytes = is_codes() && format == Format::kE2M1
                              ? at / 2
                              : at * static_cast<int64_t>(SizeOf(values.dtype));
    if (values.data != nullptr) {
      input.values.data = static_cast<const char*>(values.data) + bytes;
    }
    input.values.rows = rows;
    input.values.cols = cols;
    input.grid = grid.From(row, col);
    return input;
  }
};

// A custom input as plain values of `dtype` that Dequantizer::DequantizeTo has
// written to `memory`: tensor_cols to a row.
inline MatmulInput DequantizedIn(const MatmulInput& custom, void* memory,
                                 DType dtype, int64_t tensor_cols) {
  MatmulInput input;
  ConstTensorView& values = input.values;
  values = custom.values;
  values.dtype = dtype;
  values.data = static_cast<char*>(memory) +
                (custom.grid.first_row * tensor_cols + custom.grid.first_col) *
                    static_cast<int64_t>(SizeOf(dtype));
  values.row_stride = custom.grid.is_transposed ? 1 : tensor_cols;
  values.col_stride = custom.grid.is_transposed ? tensor_cols : 1;
  return input;
}

}  // namespace scalekeeper::internal

#endif  // SCALEKEEPER_GEMM_MATMUL_INPUT_H_
