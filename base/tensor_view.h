// A borrowed two-dimensional tensor: pointer, dtype, device, shape, strides.
//
// Strides are counted in elements and are honoured everywhere: a transposed or
// sliced tensor is a view, not a copy. Higher-rank tensors come in with their
// leading dimensions folded into rows. A view owns nothing; the memory must
// outlive the call (and the queued work) that it is passed to. Zero rows or
// columns are valid and may come with a null pointer.
//
// Example:
//   std::vector<float> x(rows * cols);
//   auto out = quantizer.Quantize(
//       TensorView::Contiguous(x.data(), DType::kF32, rows, cols), stream);
#ifndef SCALEKEEPER_BASE_TENSOR_VIEW_H_
#define SCALEKEEPER_BASE_TENSOR_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/device.h"
#include "base/dtype.h"

namespace scalekeeper {

template <typename Pointer>
struct BasicTensorView {
  Pointer data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;  // elements between (r, c) and (r + 1, c)
  int64_t col_stride = 1;  // elements between (r, c) and (r, c + 1)
  Device device;

  // Row-major without gaps.
  static BasicTensorView Contiguous(Pointer data, DType dtype, int64_t rows,
                                    int64_t cols, Device device = {}) {
    return {data, dtype, rows, cols, cols, 1, device};
  }

  // The same memory read as cols x rows.
  BasicTensorView Transposed() const {
    return {data, dtype, cols, rows, col_stride, row_stride, device};
  }

  bool empty() const { return rows == 0 || cols == 0; }
  int64_t size() const { return rows * cols; }
  bool contiguous() const {
    return (col_stride == 1 || cols <= 1) && (row_stride == cols || rows <= 1);
  }
};

struct TensorView : BasicTensorView<void*> {
  TensorView() = default;
  TensorView(const BasicTensorView& base) : BasicTensorView(base) {}  // NOLINT
};

struct ConstTensorView : BasicTensorView<const void*> {
  ConstTensorView() = default;
  ConstTensorView(const BasicTensorView& base)  // NOLINT: converts on purpose
      : BasicTensorView(base) {}
  ConstTensorView(const BasicTensorView<void*>& base)  // NOLINT
      : BasicTensorView{base.data,       base.dtype,      base.rows,  base.cols,
                        base.row_stride, base.col_stride, base.device} {}
};

// Fails with InvalidArgument naming `what`, the value and what is allowed: a
// negative extent, a null pointer with elements behind it, a negative stride
// (0 repeats a row or column), a pointer that is not aligned to its element.
absl::Status ValidateView(const ConstTensorView& view, absl::string_view what);

// As ValidateView, for a view that is written: its elements must not overlap.
absl::Status ValidateOutputView(const ConstTensorView& view,
                                absl::string_view what);

// "bfloat16[128x256, strides 512 1] on host".
std::string Describe(const ConstTensorView& view);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_TENSOR_VIEW_H_
